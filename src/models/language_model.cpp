#include "attend/models/language_model.h"

#include "nn/checks.h"

#include <torch/nn/functional/linear.h>
#include <torch/nn/init.h>

#include <cmath>

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

void initialize_like_gpt2(LanguageModelImpl& model) {
  constexpr double kStd = 0.02;
  model.apply([](torch::nn::Module& module) {
    if (auto* linear = module.as<torch::nn::Linear>()) {
      torch::nn::init::normal_(linear->weight, 0.0, kStd);
      if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
    }
    if (auto* table = module.as<torch::nn::Embedding>()) {
      torch::nn::init::normal_(table->weight, 0.0, kStd);
    }
  });
  // Each block adds two branches to the residual stream; this keeps its variance from growing.
  const double branch_std = kStd / std::sqrt(2.0 * static_cast<double>(model.config.layers));
  model.blocks->apply([&](torch::nn::Module& module) {
    if (auto* attention = module.as<MultiheadAttention>()) {
      torch::nn::init::normal_(attention->out->weight, 0.0, branch_std);
    }
    if (auto* feed_forward = module.as<FeedForward>()) {
      torch::nn::init::normal_(feed_forward->down->weight, 0.0, branch_std);
    }
  });
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
  initialize_like_gpt2(*this);
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
