#pragma once

#include "attend/api.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <vector>

namespace attend {

/// A tensor and its values at the beginning of a `CopyBeforeWrite`.
struct KeptTensor {
  torch::Tensor tensor;
  torch::Tensor values;  ///< shares the memory of `tensor` until an operator writes to it
};

/// RAII guard: copies tensors before the first operator of this thread that writes to their memory.
/// Only these tensors need memory for a copy. Writes through data pointers are not noticed. Guards
/// of one thread must be destroyed in the reverse order.
class ATTEND_API CopyBeforeWrite {
 public:
  explicit CopyBeforeWrite(const std::vector<torch::Tensor>& tensors);
  ~CopyBeforeWrite();
  CopyBeforeWrite(const CopyBeforeWrite&) = delete;
  CopyBeforeWrite& operator=(const CopyBeforeWrite&) = delete;

  /// Returns the tensors in the order of the constructor's argument.
  const std::vector<KeptTensor>& kept() const { return kept_; }

 private:
  std::vector<KeptTensor> kept_;
  at::CallbackHandle callback_;
};

}  // namespace attend
