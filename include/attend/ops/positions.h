#pragma once

#include "attend/api.h"

#include <torch/types.h>

namespace attend {

/// The index of each step along `dim`: 0, 1, ... as int64, on the device of `x`. Unlike
/// `torch::arange(x.size(dim))` it freezes no size into a trace, and it works when another
/// dimension is empty.
///
///     positions_like(tokens, -1);  // (B, T) -> (T): 0 .. T-1
ATTEND_API torch::Tensor positions_like(const torch::Tensor& x, int64_t dim);

/// Sinusoidal position vectors of Vaswani et al. 2017, section 3.5: channel 2i is
/// sin(p / 10000^(2i/E)) and channel 2i+1 is the cosine of the same angle.
///
/// `positions` (...) of any number type, in steps; returns (..., E) in float32.
/// Throws c10::ValueError if `embed_dim` is not positive.
///
///     auto p = sinusoidal_positions(positions_like(tokens, -1), 64);  // (T, 64)
ATTEND_API torch::Tensor sinusoidal_positions(const torch::Tensor& positions, int64_t embed_dim);

}  // namespace attend
