#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Returns the ALiBi slopes of H = `num_heads` heads (Press et al. 2022). If H is a power of two,
/// the slopes are a geometric sequence from 2^(-8/H) to 2^-8. Otherwise, as in the paper's code,
/// the first P slopes are those for P heads, where P is the largest power of two below H. The
/// remaining H - P slopes are the first, third, fifth, ... of the slopes for 2P heads. Throws
/// c10::ValueError if `num_heads` is not positive.
///
///     alibi_slopes(4);  // {1/4, 1/16, 1/64, 1/256}
ATTEND_API std::vector<double> alibi_slopes(int64_t num_heads);

/// Returns the ALiBi bias of the scores, -slope * |offset|: (H, T, S) or (B, H, T, S). `offsets`
/// (T, S) or (B, 1, T, S), integer or float, e.g. the result of `key_offsets`; `slopes` (H), float.
///
///     alibi_bias(key_offsets(q, k), torch::tensor(alibi_slopes(8)));  // (8, T, S)
ATTEND_API torch::Tensor alibi_bias(const torch::Tensor& offsets, const torch::Tensor& slopes);

}  // namespace attend
