#pragma once

#include <torch/nn/module.h>

namespace attend {

/// How many numbers a module learns.
inline int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace attend
