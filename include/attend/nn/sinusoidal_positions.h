#pragma once

#include "attend/api.h"
#include "attend/nn/cloneable.h"

#include <torch/nn/pimpl.h>

namespace attend {

/// `sinusoidal_positions` as a module, to replace an Embedding of learned positions. It has no
/// parameters.
///
///     SinusoidalPositions position(64);
///     auto p = position(positions_like(tokens, -1));  // (T) -> (T, 64)
class ATTEND_API SinusoidalPositionsImpl : public Cloneable<SinusoidalPositionsImpl> {
 public:
  /// Throws c10::ValueError if `embed_dim` is not positive.
  explicit SinusoidalPositionsImpl(int64_t embed_dim);

  /// `positions` (...) in tokens; returns (..., E) in float32.
  torch::Tensor forward(const torch::Tensor& positions);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  int64_t embed_dim;  ///< width E
};
TORCH_MODULE(SinusoidalPositions);

}  // namespace attend
