#pragma once

#include "attend/ops/attention.h"
#include "attend/ops/prepared_mask.h"

#include <torch/types.h>

namespace attend {

/// Returns true if the fused kernels cannot be used because the (T, S) weights must be computed:
/// `need_weights` is set, an `AttentionRecorder` is recording, or there is a soft cap or sinks.
bool computes_weights(const AttentionArgs& args, const ScoreOptions& options);

/// Returns true if `args.causal` is set and `args` contain no other mask and no positions.
bool only_causal(const AttentionArgs& args);

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

}  // namespace attend
