#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Returns the ALiBi slope of each head (Press et al. 2022): a geometric sequence from 2^(-8/H) to
/// 2^-8. If `num_heads` is not a power of two, the slopes for the next lower power of two are
/// followed by every second slope for the next higher power of two, as in the paper's code. Throws
/// c10::ValueError if `num_heads` is not positive.
///
///     alibi_slopes(4);  // {1/4, 1/16, 1/64, 1/256}
ATTEND_API std::vector<double> alibi_slopes(int64_t num_heads);

/// Returns the ALiBi bias of the scores, -slope * |offset|: (H, T, S) or (B, H, T, S). `offsets`
/// (T, S) or (B, 1, T, S), integer or float, as returned by `key_offsets`; `slopes` (H), float.
///
///     alibi_bias(key_offsets(q, k), torch::tensor(alibi_slopes(8)));  // (8, T, S)
ATTEND_API torch::Tensor alibi_bias(const torch::Tensor& offsets, const torch::Tensor& slopes);

}  // namespace attend
