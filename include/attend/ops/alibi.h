#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// By how much each head's scores fall with each step of distance (Press et al. 2022): a geometric
/// sequence from 2^(-8/H) to 2^-8. If `num_heads` is no power of two, those of the next lower one
/// come first, then every second one of the next higher, as in the paper's code.
/// Throws c10::ValueError if `num_heads` is not positive.
///
///     alibi_slopes(4);  // {1/4, 1/16, 1/64, 1/256}
ATTEND_API std::vector<double> alibi_slopes(int64_t num_heads);

/// What attention with linear biases adds to the scores: -slope * |offset|, which without a causal
/// mask falls on both sides. `offsets` (T, S) or (B, 1, T, S), as `key_offsets` gives them, in a
/// float type or integers, `slopes` (H) in a float type; returns (H, T, S) or (B, H, T, S).
///
///     alibi_bias(key_offsets(q, k), torch::tensor(alibi_slopes(8)));  // (8, T, S)
ATTEND_API torch::Tensor alibi_bias(const torch::Tensor& offsets, const torch::Tensor& slopes);

}  // namespace attend
