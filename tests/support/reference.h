#pragma once

#include "attend/ops/attention.h"

namespace attend {

/// Attention as a textbook writes it, in plain loops over float64 numbers: the reference that the
/// library is held against. `query` (..., T, D), `key` (..., S, D), `value` (..., S, Dv) and `bias`
/// (..., T, S), which is added to the scaled scores, have equal leading dimensions. A row whose
/// bias is -infinity throughout gives zeros.
AttentionOutput attention_in_loops(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, const torch::Tensor& bias,
                                   double scale);

/// The bias that means the same as `args`, in float64, with the shape of the scores.
torch::Tensor bias_of(const AttentionArgs& args, at::IntArrayRef scores_shape);

}  // namespace attend
