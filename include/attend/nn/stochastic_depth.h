#pragma once

#include "attend/api.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// Stochastic depth (Huang et al. 2016): in training, zeroes each sequence of a residual branch
/// with probability p and scales the others by 1 / (1 - p).
///
///     StochasticDepth drop(0.1);
///     auto y = drop(branch);  // (B, T, E): some sequences are zeros
class ATTEND_API StochasticDepthImpl : public Cloneable<StochasticDepthImpl> {
 public:
  /// Throws c10::ValueError if `probability` is not in [0, 1).
  explicit StochasticDepthImpl(double probability);

  /// `x` (B, T, E), or (T, E) as one sequence; returns a tensor of the same shape.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  double probability;  ///< probability that a sequence is zeroed
};
TORCH_MODULE(StochasticDepth);

}  // namespace attend
