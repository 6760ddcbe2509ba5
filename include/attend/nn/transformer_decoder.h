#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/decoder_block.h"
#include "attend/nn/kv_cache.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

#include <functional>

namespace attend {

/// Options for `TransformerDecoder`.
///
///     TransformerDecoderOptions(DecoderBlockOptions(64, 4), 6)
struct TransformerDecoderOptions {
  /// Options for L blocks.
  TransformerDecoderOptions(const DecoderBlockOptions& block, int64_t num_layers)
      : block_(block), num_layers_(num_layers) {}

  /// Options of each block. `stochastic_depth` is the probability for the last block: the
  /// probability grows linearly with depth up to this value.
  ATTEND_NESTED_ARG(DecoderBlockOptions, block);
  /// Function that changes the options of individual layers. It is called for each layer, with the
  /// index of the layer and a copy of `block`. In the copy, `stochastic_depth` is already the
  /// probability for this layer. Without this function, the layers differ only in
  /// `stochastic_depth`.
  ATTEND_ARG(std::function<void(int64_t layer, DecoderBlockOptions& block)>, per_layer);
  /// Number of blocks L; with 0, only the final norm is applied.
  ATTEND_ARG(int64_t, num_layers);
  /// If true, the last block is followed by a norm, made by `block.residual().norm()`.
  ATTEND_ARG(bool, final_norm) = true;
  /// If true, the forward pass does not store the activations inside the blocks, and the backward
  /// pass computes them again. See `checkpoint`.
  ATTEND_ARG(bool, gradient_checkpointing) = false;
};

/// Stack of decoder blocks with cross-attention to a memory: the decoder of Vaswani et al. 2017.
/// Masks, rotary tables and ALiBi biases are computed once per forward pass and shared by the
/// blocks.
///
/// State dict: `blocks.0` .. `blocks.L-1` (DecoderBlock) and, with `final_norm`, `norm`.
///
///     TransformerDecoder decoder(DecoderBlockOptions(64, 4), 6);
///     auto y = decoder(x, memory, {.causal = true});  // -> (B, T, 64)
class ATTEND_API TransformerDecoderImpl : public Cloneable<TransformerDecoderImpl> {
 public:
  /// Throws c10::ValueError if the options are invalid.
  explicit TransformerDecoderImpl(const TransformerDecoderOptions& options);
  /// A stack of L blocks with these options.
  TransformerDecoderImpl(const DecoderBlockOptions& block, int64_t num_layers)
      : TransformerDecoderImpl(TransformerDecoderOptions(block, num_layers)) {}

  /// `x` (B, T, E), `memory` (B, S, M), or both without B; M is the kdim of the cross-attention, by
  /// default E. Returns a tensor of the shape of `x`. `args`: arguments of the self-attention of
  /// each block, which is causal only if `args.causal` is set. `memory_args`: arguments of the
  /// cross-attention. Of `state`, only `cache` and `hook` are used; gradient checkpointing is off
  /// if either is set. Throws c10::ValueError if the width of `x` is not E or the width of `memory`
  /// is not M.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& memory,
                        const AttentionArgs& args = {}, const AttentionArgs& memory_args = {},
                        const ForwardState& state = {});

  /// Returns an empty KV cache for `batch_size` sequences of up to `max_seq_len` tokens, with the
  /// dtype and device of the weights or, under autocast, the autocast dtype. All layers must have
  /// the number of key-value heads and the head width of `options.block()`. For sequences longer
  /// than the memory, with a sliding window, construct the `KvCache` with its own options.
  ///
  ///     auto cache = decoder->make_cache(1, 128);
  ///     cache.extend(x.size(1));
  ///     auto y = decoder(x, memory, {.causal = true}, {}, {.cache = &cache});
  KvCache make_cache(int64_t batch_size, int64_t max_seq_len) const;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  TransformerDecoderOptions options;      ///< options passed to the constructor
  torch::nn::ModuleList blocks{nullptr};  ///< L DecoderBlocks
  torch::nn::AnyModule norm;              ///< final norm; empty if disabled

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(AttentionArgs())},
                           {3, torch::nn::AnyValue(AttentionArgs())},
                           {4, torch::nn::AnyValue(ForwardState())})
};
ATTEND_MODULE(TransformerDecoder,
              (const torch::Tensor& x, const torch::Tensor& memory, const AttentionArgs& args = {},
               const AttentionArgs& memory_args = {}, const ForwardState& state = {}),
              (x, memory, args, memory_args, state));

}  // namespace attend
