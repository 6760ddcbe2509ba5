#pragma once

#include <torch/types.h>

#include <map>
#include <string>

namespace attend::train {

/// Returns copies of tensors, on the CPU and without gradients.
inline std::map<std::string, torch::Tensor> cpu_copies(
    const std::map<std::string, torch::Tensor>& tensors) {
  std::map<std::string, torch::Tensor> copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace(name, tensor.detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true));
  }
  return copies;
}

}  // namespace attend::train
