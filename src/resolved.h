#pragma once

#include <torch/types.h>

namespace attend {

/// Returns a tensor with the values of `tensor` in its memory. The memory of a conjugate or
/// negative view, such as `z.conj()` and `torch::imag(z.conj())`, contains the values of its base,
/// and a zero tensor (`torch::_efficientzerotensor`) has no memory.
inline torch::Tensor resolved(const torch::Tensor& tensor) {
  if (tensor._is_zerotensor()) return tensor.clone();
  return tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;
}

/// Returns `tensor` resolved, on the CPU, contiguous and without gradients, for code that reads
/// values through a pointer.
inline torch::Tensor contiguous_on_cpu(const torch::Tensor& tensor) {
  return resolved(tensor.detach()).cpu().contiguous();
}

}  // namespace attend
