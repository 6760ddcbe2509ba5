#include "attend/nn/sinusoidal_positions.h"

#include "attend/ops/positions.h"
#include "nn/checks.h"

namespace attend {

SinusoidalPositionsImpl::SinusoidalPositionsImpl(int64_t embed_dim) : embed_dim(embed_dim) {
  reset();
}

void SinusoidalPositionsImpl::reset() {
  check_positive("embed_dim", embed_dim);
}

torch::Tensor SinusoidalPositionsImpl::forward(const torch::Tensor& positions) {
  return sinusoidal_positions(positions, embed_dim);
}

void SinusoidalPositionsImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::SinusoidalPositions(embed_dim=" << embed_dim << ")";
}

}  // namespace attend
