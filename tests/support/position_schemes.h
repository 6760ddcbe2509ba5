#pragma once

#include "attend/ops/relative_buckets.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Rotary positions in plain loops over float64 numbers (Su et al. 2021, eq. 15): pair i of the
/// channels of `x` (B, H, T, D) turned by positions[b][t] * frequencies[i]; `positions` (B, T).
torch::Tensor rotate_in_loops(const torch::Tensor& x, const torch::Tensor& positions,
                              const std::vector<double>& frequencies, bool interleaved);

/// The slope of one head under ALiBi, by the recursion of the paper's code.
double slope_of_head(int64_t head, int64_t num_heads);

/// The bucket of one offset under T5. A distance less than `nudge` buckets from an edge belongs to
/// the upper bucket, to the lower one if `nudge` is negative.
int64_t bucket_of_offset(int64_t offset, const RelativeBucketOptions& options, double nudge = 1e-9);

}  // namespace attend
