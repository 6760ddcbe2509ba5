#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Numbers that a module computes from its options and needs as a tensor. Unlike a buffer they are
/// in no state dict, and a cast of the module to a half type leaves their precision alone.
///
///     Constant frequencies_{rotary_frequencies(64)};
///     auto angles = positions * frequencies_.type_as(positions);
class ATTEND_API Constant {
 public:
  Constant() = default;
  explicit Constant(const std::vector<double>& values);

  /// The numbers (N) on the device and in the dtype of `x`; a trace follows the `x` it is run with.
  /// They are copied to an accelerator once, not at every call. May be called from several threads.
  torch::Tensor type_as(const torch::Tensor& x);

 private:
  torch::Tensor values_;  // float64, on the CPU
  torch::Tensor copy_;    // on the accelerator that asked last
};

}  // namespace attend
