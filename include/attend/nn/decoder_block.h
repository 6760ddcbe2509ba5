#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/feed_forward.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/nn/module_factory.h"
#include "attend/nn/multihead_attention.h"
#include "attend/nn/residual.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <utility>

namespace attend {

/// Options for `DecoderBlock`, with nested options for both attentions, the feed-forward and the
/// residual branches.
///
///     auto options = DecoderBlockOptions(64, 4);
///     options.attention().add(rotary());
///     options.cross_attention().kdim(48).vdim(48);  // memory of width 48
struct DecoderBlockOptions {
  /// Options for width E and H heads.
  DecoderBlockOptions(int64_t embed_dim, int64_t num_heads)
      : attention_(embed_dim, num_heads),
        cross_attention_(embed_dim, num_heads),
        feed_forward_(embed_dim) {}

  /// Sets the same dropout probability for the attention weights (self-attention and
  /// cross-attention), the feed-forward and the outputs of the residual branches.
  DecoderBlockOptions& dropout(double dropout) & {
    attention_.dropout(dropout);
    cross_attention_.dropout(dropout);
    feed_forward_.dropout(dropout);
    residual_.dropout(dropout);
    return *this;
  }
  /// Overload for a temporary object: returns the changed options by value.
  DecoderBlockOptions dropout(double dropout) && { return std::move(this->dropout(dropout)); }

  /// Options of the self-attention.
  ATTEND_NESTED_ARG(MultiheadAttentionOptions, attention);
  /// Options of the cross-attention. kdim and vdim must be equal: both are the width of the memory.
  ATTEND_NESTED_ARG(MultiheadAttentionOptions, cross_attention);
  /// Options of the feed-forward or, with experts, of each expert.
  ATTEND_NESTED_ARG(FeedForwardOptions, feed_forward);
  /// If set, the feed-forward is a mixture of experts with these options.
  ATTEND_ARG(std::optional<ExpertsOptions>, experts);
  /// Factory of a module to use as the feed-forward; if set, `feed_forward` is ignored and
  /// `experts` must not be set.
  ATTEND_ARG(ModuleFactory, custom_feed_forward);
  /// Options of the residual branches.
  ATTEND_NESTED_ARG(ResidualOptions, residual);
};

/// Transformer decoder block (Vaswani et al. 2017, section 3.1): self-attention, cross-attention
/// to a memory such as the encoder's output, and feed-forward, each in a residual branch with a
/// norm. With `NormOrder::parallel`, there is one branch with one norm for all three.
///
/// State dict: `attention` and `cross_attention` (MultiheadAttention), `feed_forward` (FeedForward,
/// MixtureOfExperts or a custom module), `norm1`, the optional modules of `Residual` and,
/// unless the norm order is `NormOrder::parallel`, `norm_cross` and `norm2`. Modules that a
/// `TransformerBlock` also contains have the same names in both blocks.
///
///     DecoderBlock block(DecoderBlockOptions(64, 4));
///     auto y = block(x, memory, {.causal = true}, {.key_mask = memory_key_mask});
class ATTEND_API DecoderBlockImpl : public Cloneable<DecoderBlockImpl> {
 public:
  /// Throws c10::ValueError if the options are invalid or contradict each other.
  explicit DecoderBlockImpl(const DecoderBlockOptions& options);
  /// A block with default options.
  DecoderBlockImpl(int64_t embed_dim, int64_t num_heads)
      : DecoderBlockImpl(DecoderBlockOptions(embed_dim, num_heads)) {}

  /// `x` (B, T, E) and `memory` (B, S, M), or both without B; M is the kdim of the cross-attention,
  /// by default E. Returns a tensor of the shape of `x`. `self_args`: arguments of the
  /// self-attention, which is causal only if `self_args.causal` is set. `memory_args`: arguments of
  /// the cross-attention. `self_args.mask` broadcasts to (B, H, T, K), where K is T plus the number
  /// of cached keys, and `memory_args.mask` to (B, H, T, S); each is bool (true = may attend) or
  /// float (added to the scores). The attention weights are not returned, even if `need_weights` is
  /// set; to get them, use an `AttentionRecorder`. It records the weights of the self-attention,
  /// then those of the cross-attention. `state.cache` caches the keys and values of the
  /// self-attention and of the memory. Only the self-attention calls `state.hook`. Throws
  /// c10::ValueError if the width of `x` is not E or the width of `memory` is not M.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& memory,
                        const AttentionArgs& self_args = {}, const AttentionArgs& memory_args = {},
                        const ForwardState& state = {});

  void reset() override;
  void check_submodules() const override;
  void pretty_print(std::ostream& stream) const override;

  DecoderBlockOptions options;                  ///< options passed to the constructor
  MultiheadAttention attention{nullptr};        ///< self-attention
  MultiheadAttention cross_attention{nullptr};  ///< attention to the memory
  torch::nn::AnyModule feed_forward;            ///< FeedForward, MixtureOfExperts or custom

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(AttentionArgs())},
                           {3, torch::nn::AnyValue(AttentionArgs())},
                           {4, torch::nn::AnyValue(ForwardState())})

 private:
  Residual residual1_;       // branch of attention; the only branch with NormOrder::parallel
  Residual residual_cross_;  // branch of cross_attention
  Residual residual2_;       // branch of feed_forward
};
ATTEND_MODULE(DecoderBlock,
              (const torch::Tensor& x, const torch::Tensor& memory,
               const AttentionArgs& self_args = {}, const AttentionArgs& memory_args = {},
               const ForwardState& state = {}),
              (x, memory, self_args, memory_args, state));

}  // namespace attend
