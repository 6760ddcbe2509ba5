#pragma once

#include "attend/api.h"
#include "attend/nn/decoder_block.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `TransformerDecoder`; those of its blocks are nested.
///
///     TransformerDecoderOptions(DecoderBlockOptions(64, 4), 6)
struct TransformerDecoderOptions {
  TransformerDecoderOptions(const DecoderBlockOptions& block, int64_t num_layers)
      : block_(block), num_layers_(num_layers) {}

  /// Of each block. Its `stochastic_depth` is that of the last block; it grows evenly from the
  /// first.
  TORCH_ARG(DecoderBlockOptions, block);
  /// Number of blocks L; 0 leaves the final norm.
  TORCH_ARG(int64_t, num_layers);
  /// Whether a norm of the blocks' kind follows the last of them.
  TORCH_ARG(bool, final_norm) = true;
  /// Whether to gradient_checkpointing each block in the backward pass instead of keeping its
  /// activations.
  TORCH_ARG(bool, gradient_checkpointing) = false;
};

/// A stack of decoder blocks, which look at themselves and at a memory: the decoder of Vaswani et
/// al. 2017.
///
/// State dict: `blocks.0` .. `blocks.L-1` (DecoderBlock) and `norm`.
///
///     TransformerDecoder decoder(TransformerDecoderOptions(DecoderBlockOptions(64, 4), 6));
///     auto y = decoder->forward(x, memory, {.causal = true});  // (B, T, 64), (B, S, 64)
class ATTEND_API TransformerDecoderImpl : public torch::nn::Cloneable<TransformerDecoderImpl> {
 public:
  explicit TransformerDecoderImpl(const TransformerDecoderOptions& options);

  /// `x` (B, T, E), `memory` (B, S, M), or both without B; returns the shape of `x`. `args` hold
  /// for the self-attention of each block, in which nothing is hidden unless they say so, a
  /// decoder's future neither; `memory_args` hold for its cross-attention. Of `state` only the
  /// cache is used. Throws c10::ValueError if a width does not fit.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& memory,
                        const AttentionArgs& args = {}, const AttentionArgs& memory_args = {},
                        const ForwardState& state = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  TransformerDecoderOptions options;
  torch::nn::ModuleList blocks{nullptr};
  torch::nn::AnyModule norm;  ///< empty if there is no final norm

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(AttentionArgs())},
                           {3, torch::nn::AnyValue(AttentionArgs())},
                           {4, torch::nn::AnyValue(ForwardState())})
};
TORCH_MODULE(TransformerDecoder);

}  // namespace attend
