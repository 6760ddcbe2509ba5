#pragma once

#include "attend/enum_names.h"
#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Where the layer norm of a residual branch stands.
enum class NormOrder {
  pre,   ///< x + f(norm(x)), as in GPT-2: trains without warm-up
  post,  ///< norm(x + f(x)), as in Vaswani et al. 2017 and in Bloem's drawing
};

template <>
struct EnumNames<NormOrder> {
  static constexpr std::array<std::string_view, 2> names{"pre", "post"};
};

/// Options for `TransformerBlock`; those of its attention and feed-forward are nested.
///
///     auto options = TransformerBlockOptions(64, 4).norm_order(NormOrder::post);
///     options.feed_forward().activation(Activation::relu);
struct TransformerBlockOptions {
  TransformerBlockOptions(int64_t embed_dim, int64_t num_heads)
      : attention_(embed_dim, num_heads), feed_forward_(embed_dim) {}

  TORCH_ARG(MultiheadAttentionOptions, attention);
  TORCH_ARG(FeedForwardOptions, feed_forward);
  TORCH_ARG(NormOrder, norm_order) = NormOrder::pre;
  /// Added to the variance in both layer norms.
  TORCH_ARG(double, norm_eps) = 1e-5;
  /// Probability that an element of a branch's result is dropped before it is added.
  TORCH_ARG(double, dropout) = 0.0;
};

/// The transformer block: attention and feed-forward, each in a residual branch with layer norm.
///
/// State dict: `attention` (MultiheadAttention), `norm1`, `feed_forward` (FeedForward), `norm2`.
///
///     TransformerBlock block(TransformerBlockOptions(64, 4));
///     auto y = block->forward(x, {.causal = true});  // (B, T, 64) -> (B, T, 64)
class TransformerBlockImpl : public torch::nn::Cloneable<TransformerBlockImpl> {
 public:
  explicit TransformerBlockImpl(const TransformerBlockOptions& options);
  TransformerBlockImpl(int64_t embed_dim, int64_t num_heads)
      : TransformerBlockImpl(TransformerBlockOptions(embed_dim, num_heads)) {}

  /// `x` (B, T, E) or (T, E), returns the same shape. The mask in `args` broadcasts to
  /// (B, H, T, T), bool with true = may attend, or float. `args.need_weights` has no effect here:
  /// an `AttentionRecorder` gets the weights. Throws c10::ValueError if the width is not E.
  torch::Tensor forward(const torch::Tensor& x, const AttentionArgs& args = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  TransformerBlockOptions options;
  MultiheadAttention attention{nullptr};
  torch::nn::LayerNorm norm1{nullptr};
  FeedForward feed_forward{nullptr};
  torch::nn::LayerNorm norm2{nullptr};
  torch::nn::Dropout dropout{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())})
};
TORCH_MODULE(TransformerBlock);

}  // namespace attend
