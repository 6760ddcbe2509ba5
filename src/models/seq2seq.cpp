#include "attend/models/seq2seq.h"

#include <torch/nn/functional/linear.h>

namespace attend::inline models {

Seq2SeqImpl::Seq2SeqImpl(const Seq2SeqConfig& config) : config(config) {
  reset();
}

void Seq2SeqImpl::reset() {
  TORCH_CHECK_VALUE(config.decoder_layers >= -1, "decoder_layers (", config.decoder_layers,
                    ") must be -1 (as many as layers) or not negative");
  const auto& stack = config.stack;
  const auto decoder_layers = config.decoder_layers == -1 ? stack.layers : config.decoder_layers;
  const auto embedding = [&](int64_t vocab_size) {
    return TokenEmbedding(embedding_options(stack, vocab_size, config.context));
  };
  source_embedding = register_module("source_embedding", embedding(config.source_vocab_size));
  target_embedding = register_module("target_embedding", embedding(config.target_vocab_size));
  transformer = register_module(
      "transformer", EncoderDecoder(EncoderDecoderOptions(encoder_options(stack, /*causal=*/false),
                                                          decoder_options(stack, decoder_layers))));
  if (!config.tied) {
    const auto options =
        torch::nn::LinearOptions(stack.embed_dim, config.target_vocab_size).bias(false);
    head = register_module("head", torch::nn::Linear(options));
  }
  initialize(*this, stack);
  auto decoder_stack = stack;  // its depth counts where the initialisation asks for it
  decoder_stack.layers = decoder_layers;
  initialize(*transformer->decoder, decoder_stack);
}

torch::Tensor Seq2SeqImpl::forward(const torch::Tensor& source, const torch::Tensor& target,
                                   const torch::Tensor& source_valid) {
  const auto x =
      transformer->forward(source_embedding(source), target_embedding(target),
                           {.key_valid = source_valid}, {.causal = true});  // (..., T, E)
  const auto& weight = config.tied ? target_embedding->token->weight : head->weight;
  return torch::nn::functional::linear(x, weight);  // (..., T, V)
}

void Seq2SeqImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::Seq2Seq(source_vocab_size=" << config.source_vocab_size
         << ", target_vocab_size=" << config.target_vocab_size << ", context=" << config.context
         << std::boolalpha << ", tied=" << config.tied << ")";
}

}  // namespace attend::inline models
