#pragma once

#include "attend/api.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Drops whole sequences while training, and scales those that stay by 1 / (1 - probability), so
/// that a residual branch is at times left out (stochastic depth, Huang et al. 2016).
///
///     StochasticDepth drop(0.1);
///     auto y = drop(branch);  // (B, T, E): some of the B are zeros
class ATTEND_API StochasticDepthImpl : public torch::nn::Cloneable<StochasticDepthImpl> {
 public:
  explicit StochasticDepthImpl(double probability);

  /// `x` (B, T, E), or (T, E) that stays or goes as a whole; returns the same shape.
  torch::Tensor forward(const torch::Tensor& x);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  double probability;
};
TORCH_MODULE(StochasticDepth);

}  // namespace attend
