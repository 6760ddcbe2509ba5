#pragma once

#include "attend/api.h"

#include <torch/types.h>

namespace attend {

/// Returns 0, 1, ..., x.size(dim) - 1 as int64 on the device of `x`. In a trace, the size stays
/// dynamic, unlike with `torch::arange(x.size(dim))`, which records the size as a constant. Other
/// dimensions of `x` may have size 0.
///
///     positions_like(tokens, -1);  // (B, T) -> (T): 0 .. T-1
ATTEND_API torch::Tensor positions_like(const torch::Tensor& x, int64_t dim);

/// Returns the sinusoidal position embeddings of Vaswani et al. 2017, section 3.5. For position p,
/// channel 2i is sin(p / 10000^(2i/E)), and channel 2i+1 is the cosine of the same angle.
///
/// `positions` (...), integer or float, in tokens; returns (..., E) in float32.
/// Throws c10::ValueError if `embed_dim` is not positive.
///
///     auto p = sinusoidal_positions(positions_like(tokens, -1), 64);  // (T, 64)
ATTEND_API torch::Tensor sinusoidal_positions(const torch::Tensor& positions, int64_t embed_dim);

}  // namespace attend
