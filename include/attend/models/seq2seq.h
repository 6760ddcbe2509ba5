#pragma once

#include "attend/api.h"
#include "attend/models/stack_config.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/encoder_decoder.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/tied_embeddings.h"
#include "attend/nn/token_embedding.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>

#include <optional>

namespace attend {

/// Configuration of a `Seq2Seq` model.
///
///     Seq2SeqConfig{.source_vocab_size = 40, .target_vocab_size = 30, .stack = {.num_layers = 3}}
struct Seq2SeqConfig {
  int64_t source_vocab_size = 0;    ///< source vocabulary size; required
  int64_t target_vocab_size = 0;    ///< target vocabulary size V; required
  int64_t max_seq_len = 64;         ///< maximum length of source and of target, in tokens
  int64_t num_decoder_layers = -1;  ///< number of decoder blocks; -1 means stack.num_layers
  bool tie_embeddings = true;       ///< the output projection shares the target embedding's weight
  double logit_scale = 1.0;         ///< factor of the logits
  double final_logit_soft_cap = 0.0;  ///< logits are cap * tanh(logit / cap) (Gemma 2); 0 = off
  StackConfig stack = {};             ///< transformer blocks; num_layers applies to the encoder
};

/// Encoder-decoder (sequence-to-sequence) transformer (Vaswani et al. 2017).
///
/// State dict: `source_embedding` and `target_embedding` (TokenEmbedding), `transformer`
/// (EncoderDecoder) and, if `config.tie_embeddings` is not set, `head.weight` (V, E).
///
/// In eval mode, any number of threads may call `forward`, `encode`, `step` and `generate` at the
/// same time.
///
///     Seq2Seq model(Seq2SeqConfig{.source_vocab_size = 40, .target_vocab_size = 30});
///     auto logits = model(source, target);  // (B, S), (B, T) -> (B, T, 30)
class ATTEND_API Seq2SeqImpl : public Cloneable<Seq2SeqImpl>, public TiedEmbeddings {
 public:
  /// Creates and initializes the model. Throws c10::ValueError if a field of `config` is out of
  /// range.
  explicit Seq2SeqImpl(const Seq2SeqConfig& config);

  /// Returns the logits (..., T, V) of the next target token at each position. `source` (B, S) and
  /// `target` (B, T), or (S) and (T): int64. `source_key_mask` (B, S): bool, true = token, false =
  /// padding; by default all are tokens.
  torch::Tensor forward(const torch::Tensor& source, const torch::Tensor& target,
                        const torch::Tensor& source_key_mask = {});

  /// Runs the encoder. Returns its output for `source` (B, S): the memory (B, S, E) for `step`.
  /// `source_key_mask`: as in `forward`.
  torch::Tensor encode(const torch::Tensor& source, const torch::Tensor& source_key_mask = {});

  /// Decodes with a KV cache: appends `target` (B, T), int64, to the sequences in `cache` and
  /// returns the logits (B, T, V) of `target`. Up to rounding, these equal the logits that
  /// `forward` returns at the same positions of the whole targets. `memory` (B, S, E) is the result
  /// of `encode`. The first call computes the keys and values of `memory`. Later calls that pass
  /// the same tensor reuse them. `source_key_mask`: as in `forward`. If `logits_to_keep` is N > 0,
  /// returns only the logits of the last N positions, (B, N, V). Throws c10::ValueError if the
  /// cache is full or, on the CPU, a token is out of range. If a call throws, the cache is
  /// unchanged.
  ///
  ///     auto cache = model->make_cache(1);
  ///     auto memory = model->encode(source);
  ///     auto logits = model->step(bos, memory, cache);  // (1, 1, V)
  torch::Tensor step(const torch::Tensor& target, const torch::Tensor& memory, KvCache& cache,
                     const torch::Tensor& source_key_mask = {}, int64_t logits_to_keep = 0);

  /// Returns an empty KV cache for `batch_size` target sequences of up to `max_seq_len` tokens, by
  /// default `config.max_seq_len`. With sliding windows, sequences may be longer: see
  /// `cache_options`. The cache has the dtype of the weights or, under autocast, the autocast
  /// dtype. Each thread needs its own cache.
  KvCache make_cache(int64_t batch_size, std::optional<int64_t> max_seq_len = std::nullopt) const;

  /// Returns the logits (..., T, V) of the hidden states `x` (..., T, E), the output of
  /// `transformer`. Applies the output projection, then `logit_scale`, then `final_logit_soft_cap`.
  torch::Tensor logits(const torch::Tensor& x) const;

  void untie_embeddings() override;
  void retie_embeddings() override;

  /// Recreates the submodules with newly initialized weights.
  void reset() override;
  /// Prints the class and the main fields of the config.
  void pretty_print(std::ostream& stream) const override;

  Seq2SeqConfig config;                      ///< config passed to the constructor
  TokenEmbedding source_embedding{nullptr};  ///< source tokens and positions to hidden states
  TokenEmbedding target_embedding{nullptr};  ///< target tokens and positions to hidden states
  EncoderDecoder transformer{nullptr};       ///< encoder and decoder blocks
  torch::nn::Linear head{nullptr};           ///< output projection; empty if tie_embeddings

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(torch::Tensor())})

 private:
  bool was_tied_ = false;  // before `untie_embeddings`
};
ATTEND_MODULE(Seq2Seq,
              (const torch::Tensor& source, const torch::Tensor& target,
               const torch::Tensor& source_key_mask = {}),
              (source, target, source_key_mask));

}  // namespace attend
