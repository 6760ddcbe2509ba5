#pragma once

#include "attend/ops/relative_buckets.h"

#include <torch/types.h>

namespace attend {

/// Reference for rotary position embeddings (Su et al. 2021, eq. 15), in plain float64 loops.
/// Returns a copy of `x` (B, H, T, D). In row b, channel pair i of token t is rotated by the angle
/// positions[b][t] * frequencies[i]. `positions` has shape (B, T); `frequencies` are float64.
torch::Tensor rotate_in_loops(const torch::Tensor& x, const torch::Tensor& positions,
                              const torch::Tensor& frequencies, bool interleaved);

/// Returns the ALiBi slope of one head, by the recursion of the paper's code.
double slope_of_head(int64_t head, int64_t num_heads);

/// Returns T5's bucket of one relative position. A bucket of large distances contains a range of
/// distances. A positive `nudge` lowers the edges of these ranges, and a negative one raises them.
/// Tests use this to allow rounding errors at an edge.
int64_t bucket_of_offset(int64_t offset, const RelativeBucketOptions& options, double nudge = 1e-9);

}  // namespace attend
