#pragma once

#include "attend/api.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// `sinusoidal_positions` as a module, so that it can stand where a table of learned positions
/// stands. It has no parameters.
///
///     SinusoidalPositions position(64);
///     auto p = position(positions_like(tokens, -1));  // (T) -> (T, 64)
class ATTEND_API SinusoidalPositionsImpl : public torch::nn::Cloneable<SinusoidalPositionsImpl> {
 public:
  explicit SinusoidalPositionsImpl(int64_t embed_dim);

  /// `positions` (...) in steps, returns (..., E) in float32.
  torch::Tensor forward(const torch::Tensor& positions);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t embed_dim;
};
TORCH_MODULE(SinusoidalPositions);

}  // namespace attend
