#include "attend/models/language_model.h"

#include "models/decoding.h"
#include "models/output_logits.h"
#include "nn/new_layers.h"

namespace attend {

LanguageModelImpl::LanguageModelImpl(const LanguageModelConfig& config) : config(config) {
  reset();
}

void LanguageModelImpl::reset() {
  check_logit_options(config);
  const auto& stack = config.stack;
  use("embedding", &LanguageModelImpl::embedding,
      TokenEmbedding(embedding_options(stack, config.vocab_size, config.max_seq_len)));
  use("decoder", &LanguageModelImpl::decoder,
      TransformerEncoder(encoder_options(stack, /*causal=*/true)));
  if (!config.tie_embeddings) {
    const auto options = torch::nn::LinearOptions(stack.embed_dim, config.vocab_size).bias(false);
    use("head", &LanguageModelImpl::head, new_linear(options));
  }
  initialize(*this, stack);
}

torch::Tensor LanguageModelImpl::forward(const torch::Tensor& tokens, const AttentionArgs& args) {
  auto causal = args;
  causal.causal = true;
  return logits(decoder->forward(embedding->forward(tokens, args.positions), causal));
}

torch::Tensor LanguageModelImpl::step(const torch::Tensor& tokens, KvCache& cache,
                                      const torch::Tensor& key_mask, int64_t logits_to_keep) {
  return decode_step(
      "tokens", tokens, cache, key_mask, logits_to_keep,
      [&] {
        const auto x = embedding->forward(tokens, cache.positions());     // (B, T, E)
        return decoder->forward(x, {.causal = true}, {.cache = &cache});  // (B, T, E)
      },
      [&](const torch::Tensor& x) { return logits(x); });
}

KvCache LanguageModelImpl::make_cache(int64_t batch_size,
                                      std::optional<int64_t> max_seq_len) const {
  const auto options = cache_options(config.stack, config.stack.num_layers, batch_size,
                                     max_seq_len.value_or(config.max_seq_len));
  return KvCache(with_weight_type(options, embedding->token->weight));
}

torch::Tensor LanguageModelImpl::logits(const torch::Tensor& x) const {
  return output_logits(x, embedding->token->weight, head, config);  // (..., T, V)
}

void LanguageModelImpl::untie_embeddings() {
  if (!config.tie_embeddings) return;
  use("head", &LanguageModelImpl::head, head_of(embedding->token->weight));
  head->train(is_training());
  config.tie_embeddings = false;
  was_tied_ = true;
}

void LanguageModelImpl::retie_embeddings() {
  if (!was_tied_ || !is_same_head(head, embedding->token->weight)) return;
  unregister_module("head");
  head = nullptr;
  config.tie_embeddings = true;
  was_tied_ = false;
}

void LanguageModelImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::LanguageModel(vocab_size=" << config.vocab_size
         << ", max_seq_len=" << config.max_seq_len << std::boolalpha
         << ", tie_embeddings=" << config.tie_embeddings << ", logit_scale=" << config.logit_scale
         << ", final_logit_soft_cap=" << config.final_logit_soft_cap << ")";
}

}  // namespace attend
