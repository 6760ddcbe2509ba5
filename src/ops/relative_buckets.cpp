#include "attend/ops/relative_buckets.h"

#include <cmath>

namespace attend {
namespace {

/// Returns the bucket, in [0, num_buckets), of each distance. Distances must not be negative.
torch::Tensor bucket_distances(const torch::Tensor& distances, int64_t num_buckets,
                               int64_t max_distance) {
  const int64_t exact = num_buckets / 2;
  const auto ratio = static_cast<double>(max_distance) / static_cast<double>(exact);
  // As in T5's code, the dtype is float32 and the operations have this order. Otherwise, rounding
  // may assign a distance at the edge of a bucket to a neighboring bucket.
  const auto log_steps = (distances.clamp_min(exact).to(torch::kFloat) / exact).log() /
                         std::log(ratio) * (num_buckets - exact);
  const auto far = (log_steps.to(torch::kLong) + exact).clamp_max(num_buckets - 1);
  return torch::where(distances < exact, distances, far);
}

}  // namespace

void check_buckets(const RelativeBucketOptions& options) {
  const int64_t directions = options.bidirectional ? 2 : 1;
  TORCH_CHECK_VALUE(options.num_buckets >= 2 * directions && options.num_buckets % directions == 0,
                    "num_buckets (", options.num_buckets, ") must be ",
                    options.bidirectional ? "an even number of at least 4 if bidirectional is set"
                                          : "at least 2");
  const int64_t exact = options.num_buckets / directions / 2;
  TORCH_CHECK_VALUE(options.max_distance > exact, "max_distance (", options.max_distance,
                    ") must be greater than ", exact, ": distances below ", exact,
                    " have a bucket each");
}

torch::Tensor relative_buckets(const torch::Tensor& offsets, const RelativeBucketOptions& options) {
  check_buckets(options);
  const auto integers = offsets.to(torch::kLong);
  if (!options.bidirectional) {
    return bucket_distances(integers.neg().clamp_min(0), options.num_buckets, options.max_distance);
  }
  const int64_t half = options.num_buckets / 2;
  return bucket_distances(integers.abs(), half, options.max_distance) + (integers > 0) * half;
}

}  // namespace attend
