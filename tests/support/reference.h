#pragma once

#include "attend/ops/attention.h"

namespace attend {

/// Attention as a textbook writes it, in plain loops over float64 numbers: the reference that the
/// library is held against. It takes all that `dot_product_attention` takes, but the leading
/// dimensions of `query`, `key` and `value` are equal, except for grouped heads. A query that may
/// attend to nothing gives zeros. Always returns the weights, those of each head; no dropout.
AttentionOutput attention_in_loops(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, const AttentionArgs& args = {},
                                   const ScoreOptions& options = {});

}  // namespace attend
