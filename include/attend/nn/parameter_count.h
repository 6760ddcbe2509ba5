#pragma once

#include <torch/nn/module.h>

namespace attend {

/// Returns the number of elements of all parameters of `module`.
///
///     fmt::print("{} parameters", parameter_count(*model));
inline int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace attend
