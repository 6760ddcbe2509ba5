#pragma once

#include "attend/ops/attention.h"
#include "attend/ops/prepared_mask.h"

#include <torch/types.h>

namespace attend {

/// A call of attention. The referenced objects must exist until the call returns.
struct AttentionCall {
  const torch::Tensor& query;  ///< (..., H, T, D)
  const torch::Tensor& key;    ///< (..., G, S, D)
  const torch::Tensor& value;  ///< (..., G, S, Dv)
  const AttentionArgs& args;
  const ScoreOptions& options;
  bool self_attention = false;  ///< as in `prepare_mask`
};

/// Supplies `attend` with the mask and the biases of a call. This class computes the mask from the
/// call. The subclass of `MultiheadAttention` shares masks between layers and adds the biases of
/// hooks.
class MaskSource {
 public:
  virtual ~MaskSource() = default;

  /// Returns whether there is a bias that depends only on the offset (key position - query
  /// position).
  virtual bool has_offset_bias() const { return false; }

  /// Returns this bias (H, S + T - 1) at each of `all_offsets`; undefined = none. Called only if
  /// attention is computed in blocks.
  virtual torch::Tensor offset_bias(const AttentionCall& /*call*/) { return {}; }

  /// Returns the mask with all biases. Called only if attention is not computed in blocks.
  virtual PreparedMask mask(const AttentionCall& call);
};

/// Computes attention: in blocks if `computes_in_blocks` returns true, otherwise in one call of a
/// kernel. Throws the exceptions of `check_attention`.
AttentionOutput attend(const AttentionCall& call, MaskSource& masks);

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
