#pragma once

#include "attend/ops/attention.h"

#include <torch/types.h>

#include <vector>

namespace attend {

/// Returns whether several query heads (..., H, T, D) share a key head (..., G, S, D):
/// grouped-query attention, or multi-query attention if G = 1.
bool is_grouped(const torch::Tensor& query, const torch::Tensor& key);

/// Returns the shape (..., H, T, S) of the scores. Batch dimensions are broadcast.
std::vector<int64_t> scores_shape(const torch::Tensor& query, const torch::Tensor& key);

/// Throws c10::ValueError if `tokens` is defined, but does not have one entry per token of `x`
/// (..., N, D). The shape (N) of `tokens` is always allowed. The shapes (B, N) and (1, N) are
/// allowed if `x` has three or more dimensions, with B = `x.size(0)`.
void check_per_token(const char* name, const torch::Tensor& tokens, const torch::Tensor& x);

/// Checks the arguments of `dot_product_attention`: their shapes and dtypes, and the ranges of the
/// numbers in `args` and `options`. Throws c10::ValueError or c10::TypeError if a check fails.
void check_attention(const torch::Tensor& query, const torch::Tensor& key,
                     const torch::Tensor& value, const AttentionArgs& args,
                     const ScoreOptions& options);

}  // namespace attend
