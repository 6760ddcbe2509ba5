#include "attend/ops/alibi.h"

#include <bit>
#include <cmath>

namespace attend {
namespace {

/// Appends `count` of the ALiBi slopes that a layer with `num_heads` heads has: the slopes at the
/// indices 0, `step`, 2 * `step` and so on. `num_heads` must be a power of two.
void append_slopes(std::vector<double>& slopes, int64_t num_heads, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; ++i) {
    const auto term = static_cast<double>(1 + i * step);
    slopes.push_back(std::exp2(-8.0 * term / static_cast<double>(num_heads)));
  }
}

}  // namespace

std::vector<double> alibi_slopes(int64_t num_heads) {
  TORCH_CHECK_VALUE(num_heads > 0, "num_heads (", num_heads, ") must be positive");
  const auto lower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_heads)));
  std::vector<double> slopes;
  append_slopes(slopes, lower, lower, 1);
  append_slopes(slopes, 2 * lower, num_heads - lower, 2);
  return slopes;
}

torch::Tensor alibi_bias(const torch::Tensor& offsets, const torch::Tensor& slopes) {
  return slopes.neg().unsqueeze(-1).unsqueeze(-1) * offsets.abs();  // (..., H, T, S)
}

}  // namespace attend
