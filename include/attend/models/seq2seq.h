#pragma once

#include "attend/models/stack_config.h"
#include "attend/nn/encoder_decoder.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/token_embedding.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// All that a `Seq2Seq` is made of.
///
///     Seq2SeqConfig{.source_vocab_size = 40, .target_vocab_size = 30, .stack = {.num_layers = 3}}
struct Seq2SeqConfig {
  int64_t source_vocab_size = 0;    ///< number of the source's tokens; must be set
  int64_t target_vocab_size = 0;    ///< number of the target's tokens V; must be set
  int64_t max_seq_len = 64;         ///< longest source and longest target, in tokens
  int64_t num_decoder_layers = -1;  ///< blocks of the decoder; -1 = as many as stack.num_layers
  bool tie_embeddings = true;       ///< the head uses the target embedding's weight
  StackConfig stack = {};           ///< its blocks; `layers` are the encoder's
};

/// A model from sequences to sequences (Vaswani et al. 2017): the encoder reads the source, the
/// decoder scores each next token of the target.
///
/// State dict: `source_embedding`, `target_embedding` (TokenEmbedding), `transformer`
/// (EncoderDecoder) and, unless tied, `head.weight` (V, E).
///
///     Seq2Seq model(Seq2SeqConfig{.source_vocab_size = 40, .target_vocab_size = 30});
///     auto logits = model->forward(source, target);  // (B, S), (B, T) -> (B, T, 30)
class Seq2SeqImpl : public torch::nn::Cloneable<Seq2SeqImpl> {
 public:
  explicit Seq2SeqImpl(const Seq2SeqConfig& config);

  /// `source` (B, S) and `target` (B, T), int64, or both without B; `source_key_mask` (B, S), bool,
  /// true = a token, false = padding; all are tokens if not given. Returns the logits (..., T, V):
  /// at each position the scores of the token that follows.
  torch::Tensor forward(const torch::Tensor& source, const torch::Tensor& target,
                        const torch::Tensor& source_key_mask = {});

  /// What the decoder looks at: `source` (B, S), `source_key_mask` (B, S) as above; returns (B, S,
  /// E).
  torch::Tensor encode(const torch::Tensor& source, const torch::Tensor& source_key_mask = {});

  /// Continues the targets in `cache` by `target` (B, T), given what `encode` made of the sources
  /// (B, S, E); returns the logits (B, T, V) of these. Gives what `forward` gives for the whole
  /// targets. Throws c10::ValueError if the cache is full.
  ///
  ///     auto cache = model->make_cache(1);
  ///     auto memory = model->encode(source);
  ///     auto logits = model->step(begin, memory, cache);  // (1, 1, V)
  torch::Tensor step(const torch::Tensor& target, const torch::Tensor& memory, KvCache& cache,
                     const torch::Tensor& source_key_mask = {});

  /// An empty cache for `batch` targets; see `cache_options`.
  KvCache make_cache(int64_t batch) const;

  /// The logits (..., T, V) of what the last block's norm gives (..., T, E).
  torch::Tensor logits(const torch::Tensor& x) const;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  Seq2SeqConfig config;
  TokenEmbedding source_embedding{nullptr};
  TokenEmbedding target_embedding{nullptr};
  EncoderDecoder transformer{nullptr};
  torch::nn::Linear head{nullptr};  ///< empty when tied

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(torch::Tensor())})
};
TORCH_MODULE(Seq2Seq);

}  // namespace attend
