#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/transformer_decoder.h"
#include "attend/nn/transformer_encoder.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// Options for `EncoderDecoder`.
///
///     EncoderDecoderOptions({TransformerBlockOptions(64, 4), 6}, {DecoderBlockOptions(64, 4), 6})
struct EncoderDecoderOptions {
  /// Options of both stacks.
  EncoderDecoderOptions(const TransformerEncoderOptions& encoder,
                        const TransformerDecoderOptions& decoder)
      : encoder_(encoder), decoder_(decoder) {}

  /// Options of the encoder.
  ATTEND_NESTED_ARG(TransformerEncoderOptions, encoder);
  /// Options of the decoder.
  ATTEND_NESTED_ARG(TransformerDecoderOptions, decoder);
};

/// Encoder-decoder transformer (Vaswani et al. 2017): an encoder of the source, and a decoder of
/// the target with cross-attention to the encoder's output.
///
/// State dict: `encoder` (TransformerEncoder), `decoder` (TransformerDecoder).
///
///     EncoderDecoder transformer(options);
///     auto y = transformer(source, target, {}, {.causal = true});  // (B, T, E)
class ATTEND_API EncoderDecoderImpl : public Cloneable<EncoderDecoderImpl> {
 public:
  /// Throws c10::ValueError if the options are invalid.
  explicit EncoderDecoderImpl(const EncoderDecoderOptions& options);

  /// `source` (B, S, E), `target` (B, T, E), or both without B; returns a tensor of the shape of
  /// `target`. `source_args` are the arguments of the encoder. `source_args.key_mask` (B, S), which
  /// is true for tokens, also applies to the cross-attention. If `segments` is set in both
  /// `source_args` and `target_args`, a target token may attend only to source tokens of the same
  /// segment. `target_args` are the arguments of the decoder's self-attention, which is causal only
  /// if `target_args.causal` is set.
  torch::Tensor forward(const torch::Tensor& source, const torch::Tensor& target,
                        const AttentionArgs& source_args = {},
                        const AttentionArgs& target_args = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  EncoderDecoderOptions options;        ///< options passed to the constructor
  TransformerEncoder encoder{nullptr};  ///< encoder of the source
  TransformerDecoder decoder{nullptr};  ///< decoder of the target

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(AttentionArgs())},
                           {3, torch::nn::AnyValue(AttentionArgs())})
};
ATTEND_MODULE(EncoderDecoder,
              (const torch::Tensor& source, const torch::Tensor& target,
               const AttentionArgs& source_args = {}, const AttentionArgs& target_args = {}),
              (source, target, source_args, target_args));

}  // namespace attend
