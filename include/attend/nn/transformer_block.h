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

/// Options for `TransformerBlock`, with nested options for attention, feed-forward and residual
/// branches.
///
///     auto options = TransformerBlockOptions(64, 4).feed_forward([](auto& feed_forward) {
///       feed_forward.dropout(0.1);
///     });
///     options.residual().norm(rms_norm()).norm_order(NormOrder::sandwich);
///     options.attention().num_kv_heads(2).add(rotary());
///     options.feed_forward().activation(Activation::swiglu);
///     options.experts(ExpertsOptions(8).num_experts_per_tok(2));
///     // Or, instead of experts:
///     options.custom_feed_forward([](int64_t width) {
///       return torch::nn::AnyModule(MyFeedForward(width));
///     });
struct TransformerBlockOptions {
  /// Options for width E and H heads.
  TransformerBlockOptions(int64_t embed_dim, int64_t num_heads)
      : attention_(embed_dim, num_heads), feed_forward_(embed_dim) {}

  /// Sets the same dropout probability for the attention weights, the feed-forward and the outputs
  /// of the residual branches.
  TransformerBlockOptions& dropout(double dropout) & {
    attention_.dropout(dropout);
    feed_forward_.dropout(dropout);
    residual_.dropout(dropout);
    return *this;
  }
  /// Overload for a temporary object: returns the changed options by value.
  TransformerBlockOptions dropout(double dropout) && { return std::move(this->dropout(dropout)); }

  /// Options of the attention.
  ATTEND_NESTED_ARG(MultiheadAttentionOptions, attention);
  /// Options of the feed-forward or, with experts, of each expert.
  ATTEND_NESTED_ARG(FeedForwardOptions, feed_forward);
  /// If set, the feed-forward is a mixture of experts with these options.
  ATTEND_ARG(std::optional<ExpertsOptions>, experts);
  /// Factory of a module to use as the feed-forward; if set, `feed_forward` is ignored and
  /// `experts` must not be set.
  ATTEND_ARG(ModuleFactory, custom_feed_forward);
  /// Options of both residual branches.
  ATTEND_NESTED_ARG(ResidualOptions, residual);
};

/// Transformer block: attention and feed-forward, each in a residual branch with a norm. With
/// `NormOrder::parallel`, there is one branch with one norm for both.
///
/// State dict: `attention` (MultiheadAttention), `feed_forward` (FeedForward, MixtureOfExperts or a
/// custom module), `norm1` and the optional modules of `Residual`. Except with
/// `NormOrder::parallel`, also `norm2`.
///
///     TransformerBlock block(TransformerBlockOptions(64, 4));
///     auto y = block(x, {.causal = true});  // (B, T, 64) -> (B, T, 64)
class ATTEND_API TransformerBlockImpl : public Cloneable<TransformerBlockImpl> {
 public:
  /// Throws c10::ValueError if the options are invalid or contradict each other.
  explicit TransformerBlockImpl(const TransformerBlockOptions& options);
  /// A block with default options.
  TransformerBlockImpl(int64_t embed_dim, int64_t num_heads)
      : TransformerBlockImpl(TransformerBlockOptions(embed_dim, num_heads)) {}

  /// `x` (B, T, E) or (T, E); returns a tensor of the same shape. The mask in `args` broadcasts to
  /// (B, H, T, S): bool (true = may attend) or float (added to the scores). The weights are not
  /// returned, even if `args.need_weights` is set; to get them, use an `AttentionRecorder`. Throws
  /// c10::ValueError if the width is not E.
  torch::Tensor forward(const torch::Tensor& x, const AttentionArgs& args = {},
                        const ForwardState& state = {});

  void reset() override;
  void check_submodules() const override;
  void pretty_print(std::ostream& stream) const override;

  TransformerBlockOptions options;        ///< options passed to the constructor
  MultiheadAttention attention{nullptr};  ///< self-attention
  torch::nn::AnyModule feed_forward;      ///< FeedForward, MixtureOfExperts or a custom module

  /// Returns the branch of the attention; the only branch with `NormOrder::parallel`.
  Residual& residual1() { return residual1_; }
  /// Returns the branch of the feed-forward. Empty with `NormOrder::parallel`.
  Residual& residual2() { return residual2_; }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())},
                           {2, torch::nn::AnyValue(ForwardState())})

 private:
  Residual residual1_;
  Residual residual2_;
};
ATTEND_MODULE(TransformerBlock,
              (const torch::Tensor& x, const AttentionArgs& args = {},
               const ForwardState& state = {}),
              (x, args, state));

}  // namespace attend
