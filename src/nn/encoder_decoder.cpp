#include "attend/nn/encoder_decoder.h"

namespace attend {

EncoderDecoderImpl::EncoderDecoderImpl(const EncoderDecoderOptions& options) : options(options) {
  reset();
}

void EncoderDecoderImpl::reset() {
  encoder = register_module("encoder", TransformerEncoder(options.encoder()));
  decoder = register_module("decoder", TransformerDecoder(options.decoder()));
}

torch::Tensor EncoderDecoderImpl::forward(const torch::Tensor& source, const torch::Tensor& target,
                                          const AttentionArgs& source_args,
                                          const AttentionArgs& target_args) {
  const auto memory = encoder->forward(source, source_args);
  return decoder->forward(target, memory, target_args, {.key_valid = source_args.key_valid});
}

void EncoderDecoderImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::EncoderDecoder";
}

}  // namespace attend
