#include "support/position_schemes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace attend {

torch::Tensor rotate_in_loops(const torch::Tensor& x, const torch::Tensor& positions,
                              const torch::Tensor& frequencies, bool interleaved) {
  const auto rotated = x.detach().to(torch::kDouble).contiguous().clone();
  const auto steps = positions.to(torch::kDouble).contiguous();
  auto out = rotated.accessor<double, 4>();
  const auto at = steps.accessor<double, 2>();
  const auto pairs = frequencies.size(0);
  const auto frequency = frequencies.accessor<double, 1>();
  for (int64_t b = 0; b < out.size(0); ++b) {
    for (int64_t h = 0; h < out.size(1); ++h) {
      for (int64_t t = 0; t < out.size(2); ++t) {
        for (int64_t i = 0; i < pairs; ++i) {
          const double angle = at[b][t] * frequency[i];
          auto& first = out[b][h][t][interleaved ? 2 * i : i];
          auto& second = out[b][h][t][interleaved ? 2 * i + 1 : i + pairs];
          const double a = first;
          const double c = second;
          first = a * std::cos(angle) - c * std::sin(angle);
          second = c * std::cos(angle) + a * std::sin(angle);
        }
      }
    }
  }
  return rotated;
}

double slope_of_head(int64_t head, int64_t num_heads) {
  int64_t lower = 1;
  while (2 * lower <= num_heads) lower *= 2;
  if (lower < num_heads && head >= lower) return slope_of_head(2 * (head - lower), 2 * lower);
  return std::pow(2.0, -8.0 * static_cast<double>(head + 1) / static_cast<double>(lower));
}

int64_t bucket_of_offset(int64_t offset, const RelativeBucketOptions& options, double nudge) {
  const int64_t buckets = options.bidirectional ? options.num_buckets / 2 : options.num_buckets;
  const int64_t side = options.bidirectional && offset > 0 ? buckets : 0;
  const int64_t distance =
      options.bidirectional ? std::abs(offset) : (offset < 0 ? -offset : int64_t{0});
  const int64_t exact = buckets / 2;
  if (distance < exact) return side + distance;
  const auto log_of = [&](int64_t d) {
    return std::log(static_cast<double>(d) / static_cast<double>(exact));
  };
  const double log_ratio = log_of(distance) / log_of(options.max_distance);
  const auto further =
      static_cast<int64_t>(log_ratio * static_cast<double>(buckets - exact) + nudge);
  return side + std::min(exact + further, buckets - 1);
}

}  // namespace attend
