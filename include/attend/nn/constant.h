#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// A constant tensor of a module, computed from the options of the module. Unlike a buffer, it is
/// not in the state dict, and it keeps its float64 precision when the module is cast to float16 or
/// bfloat16.
///
///     Constant frequencies_{rotary_frequencies(64)};
///     auto angles = positions * frequencies_.type_as(positions);
class ATTEND_API Constant {
 public:
  /// An undefined constant.
  Constant() = default;
  /// A constant tensor (N) with these values.
  explicit Constant(const std::vector<double>& values);

  /// Returns the values (N) with the dtype and device of `x`. A trace records this conversion: the
  /// traced program uses the dtype and device of its own input `x`, not those of the example input.
  /// On an accelerator, the converted tensor is cached. Thread-safe.
  torch::Tensor type_as(const torch::Tensor& x);

 private:
  torch::Tensor values_;  // float64, on the CPU
  torch::Tensor copy_;    // cached result of the last call with `x` on an accelerator
};

}  // namespace attend
