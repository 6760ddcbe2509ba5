#pragma once

#include "attend/ops/attention.h"
#include "attend/ops/prepared_mask.h"

#include <torch/types.h>

namespace attend {

// `dot_product_attention` in two steps: the mask is prepared, then attention is computed. The
// layers of a stack can share the prepared mask.

/// Returns true if the fused kernels cannot be used because the (T, S) weights must be computed:
/// `need_weights` is set, an `AttentionRecorder` is recording, or there is a soft cap or sinks.
bool computes_weights(const AttentionArgs& args, const ScoreOptions& options);

/// Returns whether `args` have a mask that the fused kernel does not apply by itself.
bool needs_mask(const torch::Tensor& query, const torch::Tensor& key, const AttentionArgs& args,
                const ScoreOptions& options);

/// Returns whether a row of the mask of `args` may exclude all keys. `self_attention`: as in
/// `prepare_mask`.
bool can_have_fully_masked_rows(const torch::Tensor& query, const torch::Tensor& key,
                                const AttentionArgs& args, bool self_attention);

/// Converts `mask` (..., T, S), bool or float, to a `PreparedMask` for `query`. `may_mask_rows`:
/// true if `mask` may have fully masked rows. If false, the function does not search for them.
PreparedMask finish_mask(torch::Tensor mask, const torch::Tensor& query, bool may_mask_rows);

/// Returns the mask of `args`, without `options.bias`; see `add_bias`. `self_attention`: true if
/// each query's own token is among the keys. In this case, S >= T at all sizes that a trace may be
/// run with.
PreparedMask prepare_mask(const torch::Tensor& query, const torch::Tensor& key,
                          const AttentionArgs& args, const ScoreOptions& options,
                          bool self_attention);

/// Adds `bias` to the mask of `prepared`. The resulting mask has the query's dtype.
PreparedMask add_bias(const PreparedMask& prepared, const torch::Tensor& bias,
                      const torch::Tensor& query);

/// Computes attention of inputs that `check_attention` accepts. Of `args`, only `need_weights` and
/// `average_attn_weights` are used; `options.bias` is ignored. `mask` contains all masks and the
/// bias.
AttentionOutput attention_with_mask(const torch::Tensor& query, const torch::Tensor& key,
                                    const torch::Tensor& value, const PreparedMask& mask,
                                    const AttentionArgs& args, const ScoreOptions& options);

/// Under autocast, returns `x` in the dtype to which scaled_dot_product_attention would cast it.
/// Otherwise returns `x`.
torch::Tensor cast_for_kernel(const torch::Tensor& x);

/// Computes attention of inputs that `check_attention` accepts. Uses `attend_in_blocks` if
/// `computes_in_blocks` returns true.
AttentionOutput checked_attention(const torch::Tensor& query, const torch::Tensor& key,
                                  const torch::Tensor& value, const AttentionArgs& args,
                                  const ScoreOptions& options, bool self_attention);

}  // namespace attend
