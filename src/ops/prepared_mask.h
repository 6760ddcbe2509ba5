#pragma once

#include "attend/ops/attention.h"

#include <torch/types.h>

namespace attend {

// `dot_product_attention` in two steps, so that the layers of a stack can share the first one.

/// A mask in the form that the attention kernels take: at least one key is allowed in each row.
struct PreparedMask {
  /// bool (true = may attend) or float in the query's dtype, (1.., T, S) with as many dimensions as
  /// the query; undefined = no mask.
  torch::Tensor mask = {};
  /// bool (..., T, 1): rows whose output is set to zero; undefined = none.
  torch::Tensor fully_masked_rows = {};
  /// The fused kernel applies the causal mask itself.
  bool is_causal = false;
};

/// Returns whether attention must compute the (T, S) weights, which the fused kernels do not
/// return: for `need_weights`, an `AttentionRecorder`, soft caps and sinks.
bool computes_weights(const AttentionArgs& args, const ScoreOptions& options);

/// Returns the mask of `args`. `self_attention`: each query's own token is among the keys, so
/// S >= T at every size that a trace may be run at. `options.bias` is not added; `add_bias` does.
PreparedMask prepare_mask(const torch::Tensor& query, const torch::Tensor& key,
                          const AttentionArgs& args, const ScoreOptions& options,
                          bool self_attention);

/// Returns `prepared` with `bias` added, in the query's dtype.
PreparedMask add_bias(const PreparedMask& prepared, const torch::Tensor& bias,
                      const torch::Tensor& query);

/// Computes attention of inputs that `check_attention` accepts. Of `args` only `need_weights` and
/// `average_attn_weights` are used, and `options.bias` is ignored: the rest is in `mask`.
AttentionOutput attention_with_mask(const torch::Tensor& query, const torch::Tensor& key,
                                    const torch::Tensor& value, const PreparedMask& mask,
                                    const AttentionArgs& args, const ScoreOptions& options);

}  // namespace attend
