#pragma once

#include "attend/api.h"

#include <ATen/record_function.h>

#include <cstdint>

namespace attend {

/// Cost of the operators that this thread has called.
struct OperatorCost {
  int64_t largest_bytes = 0;  ///< memory of the largest output of an operator
  int64_t elements = 0;       ///< number of elements of all outputs
};

/// RAII scope that adds up the cost of the operators that this thread calls. Scopes of one thread
/// must not overlap.
class ATTEND_API OperatorCostScope {
 public:
  explicit OperatorCostScope(OperatorCost& cost);
  ~OperatorCostScope();
  OperatorCostScope(const OperatorCostScope&) = delete;
  OperatorCostScope& operator=(const OperatorCostScope&) = delete;

 private:
  at::CallbackHandle callback_;
};

}  // namespace attend
