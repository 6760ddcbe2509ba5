#pragma once

#include "attend/ops/attention.h"

namespace attend {

/// Reference implementation of attention in plain float64 loops. Takes the arguments of
/// `dot_product_attention`, but does not broadcast: the leading dimensions of `query`, `key` and
/// `value` must be equal (fewer key-value heads are allowed). Fully masked rows give zeros. Always
/// returns the weights of each head. Dropout is not supported.
AttentionOutput attention_in_loops(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, const AttentionArgs& args = {},
                                   const ScoreOptions& options = {});

}  // namespace attend
