#pragma once

#include "attend/ops/relative_buckets.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Reference for rotary position embeddings (Su et al. 2021, eq. 15), in plain float64 loops. In
/// `x` (B, H, T, D), rotates channel pair i by the angle positions[b][t] * frequencies[i].
/// `positions` has shape (B, T).
torch::Tensor rotate_in_loops(const torch::Tensor& x, const torch::Tensor& positions,
                              const std::vector<double>& frequencies, bool interleaved);

/// Returns the ALiBi slope of one head, by the recursion of the paper's code.
double slope_of_head(int64_t head, int64_t num_heads);

/// Returns T5's bucket of one relative position. `nudge` lowers the edges of the buckets that
/// contain ranges of distances (raises them if it is negative), for tests that allow rounding
/// errors at an edge.
int64_t bucket_of_offset(int64_t offset, const RelativeBucketOptions& options, double nudge = 1e-9);

}  // namespace attend
