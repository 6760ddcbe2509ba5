#include "attend/nn/encoder_decoder.h"

namespace attend {

EncoderDecoderImpl::EncoderDecoderImpl(const EncoderDecoderOptions& options) : options(options) {
  reset();
}

void EncoderDecoderImpl::reset() {
  use("encoder", &EncoderDecoderImpl::encoder, TransformerEncoder(options.encoder()));
  use("decoder", &EncoderDecoderImpl::decoder, TransformerDecoder(options.decoder()));
}

torch::Tensor EncoderDecoderImpl::forward(const torch::Tensor& source, const torch::Tensor& target,
                                          const AttentionArgs& source_args,
                                          const AttentionArgs& target_args) {
  const auto memory = encoder->forward(source, source_args);
  AttentionArgs memory_args{.key_mask = source_args.key_mask};
  if (source_args.segments.defined() && target_args.segments.defined()) {
    memory_args.segments = target_args.segments;
    memory_args.key_segments = source_args.segments;
  }
  return decoder->forward(target, memory, target_args, memory_args);
}

void EncoderDecoderImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::EncoderDecoder";
}

}  // namespace attend
