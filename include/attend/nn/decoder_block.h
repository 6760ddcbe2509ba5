#pragma once

#include "attend/api.h"
#include "attend/nn/feed_forward.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/residual.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `DecoderBlock`; those of its two attentions, its feed-forward and its residual
/// branches are nested.
///
///     auto options = DecoderBlockOptions(64, 4);
///     options.attention().add(rotary());
///     options.cross_attention().kdim(48).vdim(48);  // memory of width 48
struct DecoderBlockOptions {
  DecoderBlockOptions(int64_t embed_dim, int64_t num_heads)
      : attention_(embed_dim, num_heads),
        cross_attention_(embed_dim, num_heads),
        feed_forward_(embed_dim) {}

  /// Of the attention over the block's own sequence.
  TORCH_ARG(MultiheadAttentionOptions, attention);
  /// Of the attention over the memory; its kdim and vdim, equal, are the memory's width.
  TORCH_ARG(MultiheadAttentionOptions, cross_attention);
  TORCH_ARG(FeedForwardOptions, feed_forward);
  /// Of all three branches; they follow one another, so not `NormOrder::parallel`.
  TORCH_ARG(ResidualOptions, residual);
};

/// The decoder's block of an encoder-decoder (Vaswani et al. 2017, section 3.1): self-attention,
/// cross-attention over a memory such as an encoder's output, and feed-forward, each in a residual
/// branch with a norm.
///
/// State dict: `attention` (MultiheadAttention), `norm1`, `cross_attention` (MultiheadAttention),
/// `norm_cross`, `feed_forward` (FeedForward), `norm2`; what else `Residual` registers as the
/// options ask for it. Without the cross-attention these are the names of a `TransformerBlock`.
///
///     DecoderBlock block(DecoderBlockOptions(64, 4));
///     auto y = block->forward(x, memory, {.causal = true}, {.key_mask = memory_key_mask});
class ATTEND_API DecoderBlockImpl : public torch::nn::Cloneable<DecoderBlockImpl> {
 public:
  explicit DecoderBlockImpl(const DecoderBlockOptions& options);
  DecoderBlockImpl(int64_t embed_dim, int64_t num_heads)
      : DecoderBlockImpl(DecoderBlockOptions(embed_dim, num_heads)) {}

  /// `x` (B, T, E) and `memory` (B, S, M), M being E unless the options say otherwise, or both
  /// without B; returns the shape of `x`. `self_args` say who sees whom within `x`: nothing is
  /// hidden unless they say so, a decoder's future neither. `memory_args` say which of the memory
  /// is seen. Their masks broadcast to (B, H, T, T) and (B, H, T, S), bool with true = may attend,
  /// or float; `need_weights` has no effect here: an `AttentionRecorder` gets the weights, those
  /// over `x` first. `state` is that of the self-attention. Throws c10::ValueError if a width does
  /// not fit.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& memory,
                        const AttentionArgs& self_args = {}, const AttentionArgs& memory_args = {},
                        const ForwardState& state = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  DecoderBlockOptions options;
  MultiheadAttention attention{nullptr};
  MultiheadAttention cross_attention{nullptr};
  FeedForward feed_forward{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(AttentionArgs())},
                           {3, torch::nn::AnyValue(AttentionArgs())},
                           {4, torch::nn::AnyValue(ForwardState())})

 private:
  Residual residual1_;       // around attention
  Residual residual_cross_;  // around cross_attention
  Residual residual2_;       // around the feed-forward
};
TORCH_MODULE(DecoderBlock);

}  // namespace attend
