#include "attend/models/seq2seq.h"

#include "models/decoding.h"
#include "models/output_logits.h"
#include "nn/new_layers.h"

namespace attend {

Seq2SeqImpl::Seq2SeqImpl(const Seq2SeqConfig& config) : config(config) {
  reset();
}

void Seq2SeqImpl::reset() {
  TORCH_CHECK_VALUE(config.num_decoder_layers >= -1, "num_decoder_layers (",
                    config.num_decoder_layers, ") must be -1 (same as num_layers) or >= 0");
  check_logit_options(config);
  const auto& stack = config.stack;
  const auto num_decoder_layers =
      config.num_decoder_layers == -1 ? stack.num_layers : config.num_decoder_layers;
  const auto embedding = [&](int64_t vocab_size) {
    return TokenEmbedding(embedding_options(stack, vocab_size, config.max_seq_len));
  };
  use("source_embedding", &Seq2SeqImpl::source_embedding, embedding(config.source_vocab_size));
  use("target_embedding", &Seq2SeqImpl::target_embedding, embedding(config.target_vocab_size));
  use("transformer", &Seq2SeqImpl::transformer,
      EncoderDecoder(EncoderDecoderOptions(encoder_options(stack, /*causal=*/false),
                                           decoder_options(stack, num_decoder_layers))));
  if (!config.tie_embeddings) {
    const auto options =
        torch::nn::LinearOptions(stack.embed_dim, config.target_vocab_size).bias(false);
    use("head", &Seq2SeqImpl::head, new_linear(options));
  }
  initialize(*this, stack);
  auto decoder_stack = stack;  // some initializations depend on the depth
  decoder_stack.num_layers = num_decoder_layers;
  initialize(*transformer->decoder, decoder_stack);
}

torch::Tensor Seq2SeqImpl::forward(const torch::Tensor& source, const torch::Tensor& target,
                                   const torch::Tensor& source_key_mask) {
  const auto x =
      transformer->forward(source_embedding(source), target_embedding(target),
                           {.key_mask = source_key_mask}, {.causal = true});  // (..., T, E)
  return logits(x);
}

torch::Tensor Seq2SeqImpl::encode(const torch::Tensor& source,
                                  const torch::Tensor& source_key_mask) {
  return transformer->encoder->forward(source_embedding(source), {.key_mask = source_key_mask});
}

torch::Tensor Seq2SeqImpl::step(const torch::Tensor& target, const torch::Tensor& memory,
                                KvCache& cache, const torch::Tensor& source_key_mask,
                                int64_t logits_to_keep) {
  return decode_step(
      "target", target, cache, /*key_mask=*/{}, logits_to_keep,
      [&] {
        const auto x = target_embedding->forward(target, cache.positions());  // (B, T, E)
        return transformer->decoder->forward(x, memory, {.causal = true},
                                             {.key_mask = source_key_mask}, {.cache = &cache});
      },
      [&](const torch::Tensor& x) { return logits(x); });
}

KvCache Seq2SeqImpl::make_cache(int64_t batch_size, std::optional<int64_t> max_seq_len) const {
  const auto num_layers = static_cast<int64_t>(transformer->decoder->blocks->size());
  const auto options =
      cache_options(config.stack, num_layers, batch_size, max_seq_len.value_or(config.max_seq_len));
  return KvCache(with_weight_type(options, target_embedding->token->weight));
}

torch::Tensor Seq2SeqImpl::logits(const torch::Tensor& x) const {
  return output_logits(x, target_embedding->token->weight, head, config);  // (..., T, V)
}

void Seq2SeqImpl::untie_embeddings() {
  if (!config.tie_embeddings) return;
  use("head", &Seq2SeqImpl::head, head_of(target_embedding->token->weight));
  head->train(is_training());
  config.tie_embeddings = false;
  was_tied_ = true;
}

void Seq2SeqImpl::retie_embeddings() {
  if (!was_tied_ || !is_same_head(head, target_embedding->token->weight)) return;
  unregister_module("head");
  head = nullptr;
  config.tie_embeddings = true;
  was_tied_ = false;
}

void Seq2SeqImpl::pretty_print(std::ostream& stream) const {
  stream << "attend::Seq2Seq(source_vocab_size=" << config.source_vocab_size
         << ", target_vocab_size=" << config.target_vocab_size
         << ", max_seq_len=" << config.max_seq_len << std::boolalpha
         << ", tie_embeddings=" << config.tie_embeddings << ", logit_scale=" << config.logit_scale
         << ", final_logit_soft_cap=" << config.final_logit_soft_cap << ")";
}

}  // namespace attend
