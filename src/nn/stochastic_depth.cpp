#include "attend/nn/stochastic_depth.h"

#include "nn/checks.h"

namespace attend {

StochasticDepthImpl::StochasticDepthImpl(double probability) : probability(probability) {
  reset();
}

void StochasticDepthImpl::reset() {
  check_probability("probability", probability);
}

torch::Tensor StochasticDepthImpl::forward(const torch::Tensor& x) {
  if (!is_training() || probability == 0.0) return x;
  const double keep = 1.0 - probability;
  // For x (B, T, E), the random tensor has the shape (B, 1, 1), so that each sequence is dropped
  // separately. For x (T, E), it has the shape (1, 1).
  std::vector<int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  if (x.dim() > 2) shape[0] = x.size(0);
  return x * torch::empty(shape, x.options()).bernoulli_(keep).div_(keep);
}

void StochasticDepthImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::StochasticDepth(probability=" << probability << ")";
}

}  // namespace attend
