#pragma once

#include "attend/ops/attention.h"

#include <torch/types.h>

namespace attend {

/// Whether several heads of queries (..., H, T, D) share one of keys (..., G, S, D): grouped-query
/// attention, with one group multi-query attention.
bool is_grouped(const torch::Tensor& query, const torch::Tensor& key);

/// Throws c10::ValueError unless `tokens` is undefined or has one entry for each token of `x`
/// (..., N, D): (N) or, where `x` has a batch, (B, N).
void check_per_token(const char* name, const torch::Tensor& tokens, const torch::Tensor& x);

/// Throws c10::ValueError or c10::TypeError, naming what was found and what was expected, unless
/// all that `dot_product_attention` is given fits together.
void check_attention(const torch::Tensor& query, const torch::Tensor& key,
                     const torch::Tensor& value, const AttentionArgs& args,
                     const ScoreOptions& options);

}  // namespace attend
