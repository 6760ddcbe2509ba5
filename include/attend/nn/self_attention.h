#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/ops/attention.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <optional>

namespace attend {

/// Options for `SelfAttention`.
///
///     SelfAttentionOptions(16).qk_dim(8).v_dim(4).bias(false)
struct SelfAttentionOptions {
  /// Options for width E.
  SelfAttentionOptions(int64_t embed_dim) : embed_dim_(embed_dim) {}  // NOLINT: as in torch::nn

  /// Width E of the input.
  ATTEND_ARG(int64_t, embed_dim);
  /// Width Dk of queries and keys; E if not set.
  ATTEND_ARG(std::optional<int64_t>, qk_dim);
  /// Width Dv of values and of the output; E if not set.
  ATTEND_ARG(std::optional<int64_t>, v_dim);
  /// If true, the projections have a bias.
  ATTEND_ARG(bool, bias) = true;
  /// Factor by which the scores are multiplied; 1/sqrt(Dk) if not set. With `kUnscaled`, the scores
  /// are plain dot products.
  ATTEND_ARG(std::optional<double>, scale);
};

/// Single-head self-attention as in introductory texts: three projections, scores, softmax,
/// weighted sum. Unlike `MultiheadAttention`, it has no output projection and no dropout.
///
/// State dict: three Linear modules. The weights of `query` and `key` are (Dk, E), the weight of
/// `value` is (Dv, E).
///
///     SelfAttention attention(SelfAttentionOptions(4).v_dim(3));
///     auto [y, weights] = attention(x, {.need_weights = true});  // (B, T, 3), (B, T, T)
class ATTEND_API SelfAttentionImpl : public Cloneable<SelfAttentionImpl> {
 public:
  /// Throws c10::ValueError if a width is not positive or `scale` is not finite.
  explicit SelfAttentionImpl(const SelfAttentionOptions& options);

  /// `x` (B, T, E) or (T, E); returns the output (..., T, Dv) and, if `args.need_weights`, the
  /// weights (..., T, T). Throws c10::ValueError if the width of `x` is not E, or if
  /// `args.average_attn_weights` is set, and the exceptions of `dot_product_attention`.
  AttentionOutput forward(const torch::Tensor& x, const AttentionArgs& args = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  SelfAttentionOptions options;      ///< options passed to the constructor
  torch::nn::Linear query{nullptr};  ///< E -> Dk
  torch::nn::Linear key{nullptr};    ///< E -> Dk
  torch::nn::Linear value{nullptr};  ///< E -> Dv

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())})
};
ATTEND_MODULE(SelfAttention, (const torch::Tensor& x, const AttentionArgs& args = {}), (x, args));

}  // namespace attend
