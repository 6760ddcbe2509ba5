#pragma once

#include "attend/api.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace attend {

/// Cost of a forward pass.
struct OperatorCost {
  /// `OperatorCostGuard` sets `bytes` to the memory of the largest tensor that an operator
  /// returned. Code that creates a guard then compares `bytes` with the total memory of the inputs
  /// (in `verify`, of the inputs and outputs), and sets `bytes` to the larger number.
  int64_t bytes = 0;
  /// Total number of elements in all tensors that operators returned. Operators that
  /// other operators call are included: the results of `aten::linear` and of the `aten::addmm` that
  /// it calls are both counted.
  int64_t elements = 0;
};

/// RAII guard: until the end of the scope, records the cost of the operators that this thread
/// calls. Outputs that share the memory of an input, such as a transposed weight, cost nothing.
/// Guards of one thread must not overlap.
class ATTEND_API OperatorCostGuard {
 public:
  explicit OperatorCostGuard(OperatorCost& cost);
  ~OperatorCostGuard();
  OperatorCostGuard(const OperatorCostGuard&) = delete;
  OperatorCostGuard& operator=(const OperatorCostGuard&) = delete;

 private:
  at::CallbackHandle callback_;
};

/// Returns the total memory of all tensors, in bytes.
ATTEND_API int64_t bytes_of(const std::vector<torch::Tensor>& tensors);

}  // namespace attend
