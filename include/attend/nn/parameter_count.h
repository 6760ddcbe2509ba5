#pragma once

#include <torch/nn/module.h>

#include <unordered_set>

namespace attend {

/// Returns the number of elements of all parameters of `module`. A parameter shared by several
/// modules counts once.
///
///     std::cout << parameter_count(*model) << " parameters";
inline int64_t parameter_count(const torch::nn::Module& module) {
  int64_t count = 0;
  std::unordered_set<const c10::TensorImpl*> counted;
  for (const auto& parameter : module.parameters()) {
    if (counted.insert(parameter.unsafeGetTensorImpl()).second) count += parameter.numel();
  }
  return count;
}

}  // namespace attend
