#pragma once

#include "attend/api.h"
#include "export/thread_callback.h"

#include <torch/types.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace attend {

/// A tensor and its values at the beginning of a `CopyBeforeWrite`.
struct KeptTensor {
  torch::Tensor tensor;
  torch::Tensor values;  ///< shares the memory of `tensor` until an operator writes to it
};

/// Returns true if shapes, dtypes and values are equal; NaN equals NaN. Does not compare tensor
/// versions, since writes through `data()` and data pointers do not increment the version.
ATTEND_API bool has_same_values(const torch::Tensor& one, const torch::Tensor& other);

/// Restores the values of all tensors that were mutated. Returns the index of the last one. Writes
/// through `data()`, which does not change the versions of the tensors: copies of weights, and
/// graphs that wait for a backward pass, stay valid.
ATTEND_API std::optional<std::size_t> restore_all(const std::vector<KeptTensor>& all);

/// RAII guard: copies tensors before the first operator of this thread that writes to their memory.
/// Only these tensors need memory for a copy. Writes through data pointers are not noticed. Guards
/// of one thread must be destroyed in the reverse order.
class ATTEND_API CopyBeforeWrite {
 public:
  explicit CopyBeforeWrite(const std::vector<torch::Tensor>& tensors);
  ~CopyBeforeWrite();

  /// Returns the defined tensors in the order of the constructor's argument.
  const std::vector<KeptTensor>& kept() const { return kept_; }

 private:
  std::vector<KeptTensor> kept_;
  ThreadCallback callback_;
};

}  // namespace attend
