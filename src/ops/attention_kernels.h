#pragma once

#include "attend/ops/attention.h"
#include "attend/ops/prepared_mask.h"

#include <torch/types.h>

namespace attend {

/// Computes attention of inputs that `check_attention` accepts. Of `args`, only `need_weights` and
/// `average_attn_weights` are used; `options.bias` is ignored. `mask` contains all masks and the
/// bias.
AttentionOutput attention_with_mask(const torch::Tensor& query, const torch::Tensor& key,
                                    const torch::Tensor& value, const PreparedMask& mask,
                                    const AttentionArgs& args, const ScoreOptions& options);

/// Under autocast, returns `x` in the dtype to which scaled_dot_product_attention would cast it.
/// Otherwise returns `x`.
torch::Tensor cast_for_kernel(const torch::Tensor& x);

}  // namespace attend
