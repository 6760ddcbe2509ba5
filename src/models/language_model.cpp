#include "attend/models/language_model.h"

#include "models/output_logits.h"

namespace attend {

LanguageModelImpl::LanguageModelImpl(const LanguageModelConfig& config) : config(config) {
  reset();
}

void LanguageModelImpl::reset() {
  check_logit_options(config);
  const auto& stack = config.stack;
  embedding = register_module(
      "embedding", TokenEmbedding(embedding_options(stack, config.vocab_size, config.max_seq_len)));
  decoder = register_module("decoder", TransformerEncoder(encoder_options(stack, /*causal=*/true)));
  if (!config.tie_embeddings) {
    const auto options = torch::nn::LinearOptions(stack.embed_dim, config.vocab_size).bias(false);
    head = register_module("head", torch::nn::Linear(options));
  }
  initialize(*this, stack);
}

torch::Tensor LanguageModelImpl::forward(const torch::Tensor& tokens, const AttentionArgs& args) {
  auto causal = args;
  causal.causal = true;
  return logits(decoder->forward(embedding->forward(tokens, args.positions), causal));
}

torch::Tensor LanguageModelImpl::step(const torch::Tensor& tokens, KvCache& cache,
                                      const torch::Tensor& key_mask) {
  TORCH_CHECK_VALUE(tokens.dim() == 2, "tokens must have shape (B, T), found ", tokens.sizes());
  cache.extend(tokens.size(1), key_mask);
  const auto x = embedding->forward(tokens, cache.positions());  // (B, T, E)
  return logits(decoder->forward(x, {.causal = true}, {.cache = &cache}));
}

KvCache LanguageModelImpl::make_cache(int64_t batch_size) const {
  const auto& weight = embedding->token->weight;
  return KvCache(
      cache_options(config.stack, config.stack.num_layers, batch_size, config.max_seq_len)
          .dtype(weight.scalar_type())
          .device(weight.device()));
}

torch::Tensor LanguageModelImpl::logits(const torch::Tensor& x) const {
  const auto& weight = config.tie_embeddings ? embedding->token->weight : head->weight;
  return output_logits(x, weight, config);  // (..., T, V)
}

void LanguageModelImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::LanguageModel(vocab_size=" << config.vocab_size
         << ", max_seq_len=" << config.max_seq_len << std::boolalpha
         << ", tie_embeddings=" << config.tie_embeddings << ", logit_scale=" << config.logit_scale
         << ", final_logit_soft_cap=" << config.final_logit_soft_cap << ")";
}

}  // namespace attend
