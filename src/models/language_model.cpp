#include "attend/models/language_model.h"

#include <torch/nn/functional/linear.h>

namespace attend::inline models {

LanguageModelImpl::LanguageModelImpl(const LanguageModelConfig& config) : config(config) {
  reset();
}

void LanguageModelImpl::reset() {
  const auto& stack = config.stack;
  embedding = register_module(
      "embedding", TokenEmbedding(embedding_options(stack, config.vocab_size, config.context)));
  decoder = register_module("decoder", TransformerEncoder(encoder_options(stack, /*causal=*/true)));
  if (!config.tied) {
    const auto options = torch::nn::LinearOptions(stack.embed_dim, config.vocab_size).bias(false);
    head = register_module("head", torch::nn::Linear(options));
  }
  initialize(*this, stack);
}

torch::Tensor LanguageModelImpl::forward(const torch::Tensor& tokens, const AttentionArgs& args) {
  auto causal = args;
  causal.causal = true;
  return score(decoder->forward(embedding->forward(tokens, args.positions), causal));
}

torch::Tensor LanguageModelImpl::step(const torch::Tensor& tokens, KvCache& cache,
                                      const torch::Tensor& valid) {
  TORCH_CHECK_VALUE(tokens.dim() == 2, "step expects tokens (B, T), found ", tokens.sizes());
  cache.extend(tokens.size(1), valid);
  const auto x = embedding->forward(tokens, cache.positions());  // (B, T, E)
  return score(decoder->forward(x, {.causal = true}, {.cache = &cache}));
}

KvCache LanguageModelImpl::make_cache(int64_t batch) const {
  const auto& stack = config.stack;
  const auto& weight = embedding->token->weight;
  const int64_t kv_heads = stack.kv_heads != 0 ? stack.kv_heads : stack.heads;
  const int64_t head_dim = stack.head_dim != 0 ? stack.head_dim : stack.embed_dim / stack.heads;
  auto options = KvCacheOptions(stack.layers, batch, kv_heads, head_dim, config.context)
                     .dtype(weight.scalar_type())
                     .device(weight.device());
  if (stack.window > 0 && stack.positions != PositionScheme::learned) {
    // So that a call of `context` tokens finds a full window before each of them.
    options.window(stack.window).capacity(config.context + stack.window - 1);
  }
  return KvCache(options);
}

torch::Tensor LanguageModelImpl::score(const torch::Tensor& x) const {
  const auto& weight = config.tied ? embedding->token->weight : head->weight;
  return torch::nn::functional::linear(x, weight);  // (..., T, V)
}

void LanguageModelImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::LanguageModel(vocab_size=" << config.vocab_size
         << ", context=" << config.context << std::boolalpha << ", tied=" << config.tied << ")";
}

}  // namespace attend::inline models
