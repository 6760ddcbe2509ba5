#pragma once

#include "attend/api.h"
#include "attend/nn/transformer_decoder.h"
#include "attend/nn/transformer_encoder.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `EncoderDecoder`.
///
///     EncoderDecoderOptions({TransformerBlockOptions(64, 4), 6}, {DecoderBlockOptions(64, 4), 6})
struct EncoderDecoderOptions {
  EncoderDecoderOptions(const TransformerEncoderOptions& encoder,
                        const TransformerDecoderOptions& decoder)
      : encoder_(encoder), decoder_(decoder) {}

  TORCH_ARG(TransformerEncoderOptions, encoder);
  TORCH_ARG(TransformerDecoderOptions, decoder);
};

/// The transformer of Vaswani et al. 2017: an encoder of the source, and a decoder of the target
/// that looks at what the encoder returns.
///
/// State dict: `encoder` (TransformerEncoder), `decoder` (TransformerDecoder).
///
///     auto y = transformer->forward(source, target, {}, {.causal = true});  // as target
class ATTEND_API EncoderDecoderImpl : public torch::nn::Cloneable<EncoderDecoderImpl> {
 public:
  explicit EncoderDecoderImpl(const EncoderDecoderOptions& options);

  /// `source` (B, S, E), `target` (B, T, E), or both without B; returns the shape of `target`.
  /// `source_args` hold for the encoder; its `key_mask` (B, S), true = no padding, holds where the
  /// decoder looks at the source, too, and so do `segments` if both have them. `target_args` hold
  /// for the decoder's self-attention, in which nothing is hidden unless they say so, the future
  /// neither.
  torch::Tensor forward(const torch::Tensor& source, const torch::Tensor& target,
                        const AttentionArgs& source_args = {},
                        const AttentionArgs& target_args = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  EncoderDecoderOptions options;
  TransformerEncoder encoder{nullptr};
  TransformerDecoder decoder{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(AttentionArgs())},
                           {3, torch::nn::AnyValue(AttentionArgs())})
};
TORCH_MODULE(EncoderDecoder);

}  // namespace attend
