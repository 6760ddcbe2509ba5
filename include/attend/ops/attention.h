#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <optional>

namespace attend {

/// Result of attention.
struct AttentionOutput {
  torch::Tensor output;   ///< (..., T, Dv)
  torch::Tensor weights;  ///< (..., T, S), before dropout; undefined unless `need_weights` is set
};

/// Arguments of a call of `dot_product_attention` or of an attention module: which keys each query
/// may attend to, and what is returned. A query may attend to the keys that all masks allow.
///
///     attention->forward(x, {.key_mask = key_mask, .causal = true, .need_weights = true});
struct AttentionArgs {
  /// Attention mask, broadcast to (..., H, T, S). bool: true = may attend. float: added to the
  /// scores.
  torch::Tensor mask = {};
  /// Key mask (B, S) or (S), bool: true = may be attended to, false = padding.
  torch::Tensor key_mask = {};
  /// Segments of the queries (B, T) or (T), integers: a query may attend only to keys of its own
  /// segment. If several documents are packed into one sequence, each document is a segment.
  torch::Tensor segments = {};
  /// Segments of the keys (B, S) or (S), integers; `segments` if not set.
  torch::Tensor key_segments = {};
  /// Positions of the queries (B, T) or (T), integers, in tokens. If not set, the last query has
  /// the position of the last key, as when the queries continue cached keys.
  torch::Tensor positions = {};
  /// Positions of the keys (B, S) or (S), integers; `positions` if not set.
  torch::Tensor key_positions = {};
  /// Causal mask: a query may not attend to keys at later positions.
  bool causal = false;
  /// Sliding window W in tokens: a query may attend only to keys at a distance of less than W
  /// tokens (W = 1: only to its own key); 0 = no window.
  int64_t sliding_window = 0;
  /// Also return the attention weights. This needs memory for all (T, S) weights, and the fused
  /// kernels cannot be used.
  bool need_weights = false;
  /// Return the weights averaged over the heads, (..., T, S) instead of (..., H, T, S). Requires a
  /// query with the dimension H. Does not affect the result unless `need_weights` is set.
  bool average_attn_weights = false;
};

/// Value of `scale` for unscaled scores, as in T5.
inline constexpr double kUnscaled = 1.0;

/// Options of the scores. In an attention module, the module and its hooks set these options.
///
///     dot_product_attention(q, k, v, {.causal = true}, {.scale = kUnscaled});
struct ScoreOptions {
  /// Factor by which the scores are multiplied; 1/sqrt(D) if not set.
  std::optional<double> scale = std::nullopt;
  /// Dropout probability of the weights, in [0, 1).
  double dropout = 0.0;
  /// Soft cap of the scores: soft_cap * tanh(score / soft_cap) (Gemma 2); 0 = none.
  double soft_cap = 0.0;
  /// Position bias, float and finite, broadcast to (..., H, T, S): added to the scores after the
  /// soft cap.
  torch::Tensor bias = {};
  /// Attention sinks (H) or (H, 1, 1), float, as in gpt-oss: one additional score per head. The
  /// score takes part in the softmax, but has no value vector. Therefore, the weights of the keys
  /// may sum to less than 1.
  torch::Tensor sinks = {};
};

/// Scaled dot-product attention, softmax(Q K^T * scale + mask) V (Vaswani et al. 2017, eq. 1).
///
/// `query` (..., H, T, D), `key` (..., G, S, D) and `value` (..., G, S, Dv) have the same float
/// dtype; each key-value head is used by H/G consecutive query heads (grouped-query attention,
/// Ainslie et al. 2023). The dimensions H and G may be absent. Returns the output (..., H, T, Dv).
/// If `args.need_weights` is set, also returns the weights: (..., H, T, S), or (..., T, S) if
/// `args.average_attn_weights` is set, too.
///
/// The output and gradients of a query that may not attend to any key (a fully masked row) are
/// zero. The function is not named `scaled_dot_product_attention`, because calls would be
/// ambiguous: argument-dependent lookup finds LibTorch's function of this name whenever an argument
/// is a tensor.
///
/// Throws c10::ValueError or c10::TypeError if shapes, masks or dtypes do not match, or if an
/// argument or option is out of range.
///
///     auto y = dot_product_attention(q, k, v, {.causal = true}).output;
ATTEND_API AttentionOutput dot_product_attention(const torch::Tensor& query,
                                                 const torch::Tensor& key,
                                                 const torch::Tensor& value,
                                                 const AttentionArgs& args = {},
                                                 const ScoreOptions& options = {});

}  // namespace attend
