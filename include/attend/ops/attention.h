#pragma once

#include <torch/types.h>

#include <optional>

namespace attend {

/// What attention returns.
struct AttentionOutput {
  torch::Tensor output;   ///< (..., T, Dv)
  torch::Tensor weights;  ///< (..., T, S), before dropout; undefined unless asked for
};

/// What a call of attention decides, for the function and for every module built on it.
///
///     attention->forward(x, {.causal = true, .need_weights = true});
struct AttentionArgs {
  /// Broadcasts to (..., T, S). bool: true = may attend. float: added to the scores.
  torch::Tensor mask = {};
  /// No query sees a later key. Aligned at the bottom right when S > T, as with a cache of keys.
  bool causal = false;
  /// Return the weights as well; costs the (T, S) matrix that the fused kernels never write.
  bool need_weights = false;
};

/// The scale that leaves the scores as they are.
inline constexpr double kUnscaled = 1.0;

/// Scaled dot-product attention, softmax(Q K^T * scale + mask) V (Vaswani et al. 2017, eq. 1).
///
/// `query` (..., T, D), `key` (..., S, D), `value` (..., S, Dv), all of one dtype; the leading
/// dimensions are those of batch and heads. `dropout` is the probability that a weight is dropped;
/// in [0, 1); pass 0 when not training. `scale` multiplies the scores: 1/sqrt(D) by default,
/// `kUnscaled` for none, or any number.
///
/// A query that may attend to nothing gives zeros, and zero gradients.
/// Not named as LibTorch's `scaled_dot_product_attention`, which an unqualified call with tensors
/// would find as well.
///
/// Throws c10::ValueError or c10::TypeError for shapes, masks and dtypes that do not fit.
///
///     auto y = dot_product_attention(q, k, v, {.causal = true}).output;
AttentionOutput dot_product_attention(const torch::Tensor& query, const torch::Tensor& key,
                                      const torch::Tensor& value, const AttentionArgs& args = {},
                                      double dropout = 0.0,
                                      std::optional<double> scale = std::nullopt);

}  // namespace attend
