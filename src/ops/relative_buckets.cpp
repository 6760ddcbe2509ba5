#include "attend/ops/relative_buckets.h"

#include <cmath>

namespace attend {
namespace {

/// The buckets 0 .. num_buckets-1 of distances (...), which are not negative.
torch::Tensor bucket_distances(const torch::Tensor& distances, int64_t num_buckets,
                               int64_t max_distance) {
  const int64_t exact = num_buckets / 2;
  const auto ratio = static_cast<double>(max_distance) / static_cast<double>(exact);
  // In float32 and in this order, as in the code that trained T5: at a bucket's edge another
  // rounding would choose its neighbour.
  const auto steps = (distances.clamp_min(exact).to(torch::kFloat) / exact).log() /
                     std::log(ratio) * (num_buckets - exact);
  const auto far = (steps.to(torch::kLong) + exact).clamp_max(num_buckets - 1);
  return torch::where(distances < exact, distances, far);
}

}  // namespace

void check_buckets(const RelativeBucketOptions& options) {
  const int64_t sides = options.bidirectional ? 2 : 1;
  TORCH_CHECK_VALUE(options.num_buckets >= 2 * sides && options.num_buckets % sides == 0,
                    "num_buckets (", options.num_buckets, ") must be at least ", 2 * sides,
                    options.bidirectional ? " and even when bidirectional" : "");
  const int64_t exact = options.num_buckets / sides / 2;
  TORCH_CHECK_VALUE(options.max_distance > exact, "max_distance (", options.max_distance,
                    ") must be greater than the ", exact, " distances with a bucket each");
}

torch::Tensor relative_buckets(const torch::Tensor& offsets, const RelativeBucketOptions& options) {
  check_buckets(options);
  const auto whole = offsets.to(torch::kLong);
  if (!options.bidirectional) {
    return bucket_distances(whole.neg().clamp_min(0), options.num_buckets, options.max_distance);
  }
  const int64_t side = options.num_buckets / 2;
  return bucket_distances(whole.abs(), side, options.max_distance) + (whole > 0) * side;
}

}  // namespace attend
