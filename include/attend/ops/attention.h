#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <optional>

namespace attend {

/// What attention returns.
struct AttentionOutput {
  torch::Tensor output;   ///< (..., T, Dv)
  torch::Tensor weights;  ///< (..., T, S), before dropout; undefined unless asked for
};

/// What a call of attention decides, for the function and for every module built on it: which keys
/// a query may attend to, and what is returned. All that is set holds at once.
///
///     attention->forward(x, {.key_mask = valid, .causal = true, .need_weights = true});
struct AttentionArgs {
  /// Broadcasts to the scores (..., T, S). bool: true = may attend. float: added to the scores.
  torch::Tensor mask = {};
  /// (B, S), or (S) without a batch, bool: true = this key may be attended to, false = padding.
  torch::Tensor key_mask = {};
  /// (B, T), integers: the document that each token belongs to. A query attends within its own
  /// document only, so that several can share a row.
  torch::Tensor segments = {};
  /// The same for the keys (B, S); `segments` if not set.
  torch::Tensor key_segments = {};
  /// (B, T) or (T): where the queries stand, in steps. If not set, queries and keys are aligned at
  /// their ends, as when the queries continue a longer sequence of keys.
  torch::Tensor positions = {};
  /// The same for the keys, (B, S) or (S); `positions` if not set.
  torch::Tensor key_positions = {};
  /// No query sees a later key.
  bool causal = false;
  /// A query sees only keys less than so many steps away, itself included; 0 = any distance.
  int64_t sliding_window = 0;
  /// Return the weights as well; costs the (T, S) matrix that the fused kernels never write.
  bool need_weights = false;
  /// Return their mean over the heads, the third dimension from the end: (..., T, S) instead of
  /// (..., H, T, S). Says nothing unless `need_weights` does.
  bool average_weights = false;
};

/// The scale that leaves the scores as they are.
inline constexpr double kUnscaled = 1.0;

/// How scores become weights: what a layer decides, not a call.
///
///     dot_product_attention(q, k, v, {.causal = true}, {.scale = kUnscaled});
struct ScoreOptions {
  /// Multiplies the scores; 1/sqrt(D) if not set.
  std::optional<double> scale = std::nullopt;
  /// Probability that a weight is dropped, in [0, 1); 0 when not training.
  double dropout = 0.0;
  /// Bounds the scores smoothly: cap * tanh(score / cap) (Gemma 2); 0 = no bound.
  double soft_cap = 0.0;
  /// (H), or (H, 1, 1): for each head a score that takes part in the softmax but has no value, so
  /// that a query need not attend to anything (gpt-oss).
  torch::Tensor sinks = {};
};

/// Scaled dot-product attention, softmax(Q K^T * scale + mask) V (Vaswani et al. 2017, eq. 1).
///
/// `query` (..., H, T, D), `key` (..., G, S, D), `value` (..., G, S, Dv), all of one dtype. Each of
/// the G key-value heads serves H/G queries' heads in a row (grouped-query attention, Ainslie et
/// al. 2023); without heads, (..., T, D) and so on.
///
/// A query that may attend to nothing gives zeros, and zero gradients.
/// Not named as LibTorch's `scaled_dot_product_attention`, which an unqualified call with tensors
/// would find as well.
///
/// Throws c10::ValueError or c10::TypeError for shapes, masks and dtypes that do not fit.
///
///     auto y = dot_product_attention(q, k, v, {.causal = true}).output;
ATTEND_API AttentionOutput dot_product_attention(const torch::Tensor& query,
                                                 const torch::Tensor& key,
                                                 const torch::Tensor& value,
                                                 const AttentionArgs& args = {},
                                                 const ScoreOptions& options = {});

}  // namespace attend
