#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/transformer_block.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

#include <functional>

namespace attend {

/// Options for `TransformerEncoder`.
///
///     TransformerEncoderOptions stack(TransformerBlockOptions(64, 4), 6);
///     stack.per_layer([](int64_t layer, TransformerBlockOptions& block) {
///       if (layer % 2 == 0) block.attention().add(sliding_window(4096));  // as in Gemma 2
///     });
struct TransformerEncoderOptions {
  /// Options for L blocks.
  TransformerEncoderOptions(const TransformerBlockOptions& block, int64_t num_layers)
      : block_(block), num_layers_(num_layers) {}

  /// Options of each block. `stochastic_depth` is the probability for the last block: the
  /// probability grows linearly with depth up to this value (Huang et al. 2016).
  ATTEND_NESTED_ARG(TransformerBlockOptions, block);
  /// Function that changes the options of individual layers. It is called for each layer, with the
  /// index of the layer and a copy of `block`. In the copy, `stochastic_depth` is already the
  /// probability for this layer. Without this function, the layers differ only in
  /// `stochastic_depth`.
  ATTEND_ARG(std::function<void(int64_t layer, TransformerBlockOptions& block)>, per_layer);
  /// Number of blocks L; with 0, only the final norm is applied.
  ATTEND_ARG(int64_t, num_layers);
  /// If true, the last block is followed by a norm, made by `block.residual().norm()`.
  ATTEND_ARG(bool, final_norm) = true;
  /// If true, the forward pass does not store the activations inside the blocks, and the backward
  /// pass computes them again. This needs less memory and about a third more time. See
  /// `checkpoint`.
  ATTEND_ARG(bool, gradient_checkpointing) = false;
};

/// Stack of transformer blocks: an encoder (Vaswani et al. 2017) or, called with `.causal = true`,
/// the blocks of a decoder-only language model such as GPT-2. Masks, rotary tables and ALiBi biases
/// are computed once per forward pass and shared by the blocks.
///
/// State dict: `blocks.0` .. `blocks.L-1` (TransformerBlock) and, with `final_norm`, `norm`.
///
///     TransformerEncoder encoder(TransformerBlockOptions(64, 4), 6);
///     auto y = encoder(x, {.key_mask = key_mask});  // (B, T, 64) -> (B, T, 64)
class ATTEND_API TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
 public:
  /// Throws c10::ValueError if the options are invalid.
  explicit TransformerEncoderImpl(const TransformerEncoderOptions& options);
  /// A stack of L blocks with these options.
  TransformerEncoderImpl(const TransformerBlockOptions& block, int64_t num_layers)
      : TransformerEncoderImpl(TransformerEncoderOptions(block, num_layers)) {}

  /// `x` (B, T, E) or (T, E); returns a tensor of the same shape. `args` are the arguments of the
  /// attention of each block. Of `state`, only `cache` and `hook` are used; gradient checkpointing
  /// is off if either is set. Throws c10::ValueError if the width is not E.
  torch::Tensor forward(const torch::Tensor& x, const AttentionArgs& args = {},
                        const ForwardState& state = {});

  /// Returns an empty KV cache for `batch_size` sequences of up to `max_seq_len` tokens, with the
  /// dtype and device of the weights or, under autocast, the autocast dtype. All layers must have
  /// the number of key-value heads and the head width of `options.block()`. For sequences longer
  /// than the memory, with a sliding window, construct the `KvCache` with its own options.
  ///
  ///     auto cache = encoder->make_cache(1, 128);
  ///     cache.extend(x.size(1));
  ///     auto y = encoder(x, {.causal = true}, {.cache = &cache});
  KvCache make_cache(int64_t batch_size, int64_t max_seq_len) const;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  TransformerEncoderOptions options;      ///< options passed to the constructor
  torch::nn::ModuleList blocks{nullptr};  ///< L TransformerBlocks
  torch::nn::AnyModule norm;              ///< final norm; empty if disabled

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())},
                           {2, torch::nn::AnyValue(ForwardState())})
};
ATTEND_MODULE(TransformerEncoder,
              (const torch::Tensor& x, const AttentionArgs& args = {},
               const ForwardState& state = {}),
              (x, args, state));

}  // namespace attend
