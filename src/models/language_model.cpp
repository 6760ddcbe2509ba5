#include "attend/models/language_model.h"

#include "attend/nn/initialization.h"

#include <torch/nn/functional/linear.h>

namespace attend::inline models {
namespace {

TransformerBlockOptions block_options(const LanguageModelConfig& config) {
  auto options = TransformerBlockOptions(config.embed_dim, config.heads);
  options.residual().norm_order(config.norm_order).dropout(config.dropout);
  options.attention().bias(config.bias).dropout(config.dropout);
  options.feed_forward().bias(config.bias).activation(config.activation).dropout(config.dropout);
  if (config.ff_dim != 0) options.feed_forward().hidden_dim(config.ff_dim);
  return options;
}

}  // namespace

LanguageModelImpl::LanguageModelImpl(const LanguageModelConfig& config) : config(config) {
  reset();
}

void LanguageModelImpl::reset() {
  TORCH_CHECK_VALUE(config.layers >= 0, "layers (", config.layers, ") must not be negative");
  TORCH_CHECK_VALUE(config.ff_dim >= 0, "ff_dim (", config.ff_dim, ") must not be negative");

  embedding = register_module(
      "embedding",
      TokenEmbedding(TokenEmbeddingOptions(config.vocab_size, config.embed_dim, config.context)
                         .positions(config.positions)
                         .dropout(config.dropout)));
  blocks = register_module("blocks", torch::nn::ModuleList());
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks->push_back(TransformerBlock(block_options(config)));
  }
  norm = register_module("norm",
                         torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.embed_dim})));
  if (!config.tied) {
    const auto options = torch::nn::LinearOptions(config.embed_dim, config.vocab_size).bias(false);
    head = register_module("head", torch::nn::Linear(options));
  }
  initialize_gpt2(*this, config.layers);
}

torch::Tensor LanguageModelImpl::forward(const torch::Tensor& tokens) {
  auto x = embedding(tokens);  // (..., T, E)
  for (const auto& block : *blocks) {
    x = block->as<TransformerBlock>()->forward(x, {.causal = true});
  }
  const auto& head_weight = config.tied ? embedding->token->weight : head->weight;
  return torch::nn::functional::linear(norm(x), head_weight);  // (..., T, V)
}

void LanguageModelImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::LanguageModel(vocab_size=" << config.vocab_size
         << ", context=" << config.context << ", layers=" << config.layers
         << ", heads=" << config.heads << ", embed_dim=" << config.embed_dim << std::boolalpha
         << ", tied=" << config.tied << ")";
}

}  // namespace attend::inline models
