#include "attend/ops/positions.h"

#include <cmath>
#include <numeric>
#include <vector>

namespace attend {

torch::Tensor positions_like(const torch::Tensor& x, int64_t dim) {
  auto line = x.detach().movedim(dim, 0);  // (N, ...)
  // Reduces x to N elements by a sum over an empty slice. The elements of x are not used, and x may
  // have any sizes.
  if (line.dim() > 1) {
    std::vector<int64_t> others(line.dim() - 1);
    std::iota(others.begin(), others.end(), 1);
    line = line.narrow(1, 0, 0).sum(others);  // (N)
  }
  return torch::ones_like(line, torch::kLong).cumsum(0) - 1;  // (N)
}

torch::Tensor sinusoidal_positions(const torch::Tensor& positions, int64_t embed_dim) {
  TORCH_CHECK_VALUE(embed_dim > 0, "embed_dim (", embed_dim, ") must be positive");
  // positions_like is used instead of torch::arange, which would record the device in a trace.
  const auto zero = positions.flatten().narrow(0, 0, 0).sum();                     // ()
  const auto channel = positions_like(zero.expand({(embed_dim + 1) / 2}), 0) * 2;  // 0, 2, ..
  const auto frequency =
      torch::exp(channel * (-std::log(10000.0) / static_cast<double>(embed_dim)));
  const auto angle = positions.to(torch::kFloat).unsqueeze(-1) * frequency;  // (..., ceil(E/2))
  const auto pairs = torch::stack({torch::sin(angle), torch::cos(angle)}, -1);
  return pairs.flatten(-2).narrow(-1, 0, embed_dim);  // (..., E)
}

}  // namespace attend
