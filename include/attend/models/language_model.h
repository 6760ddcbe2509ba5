#pragma once

#include "attend/api.h"
#include "attend/models/stack_config.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/tied_embeddings.h"
#include "attend/nn/token_embedding.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <optional>

namespace attend {

/// Configuration of a `LanguageModel`.
///
///     LanguageModelConfig{
///         .vocab_size = 65, .max_seq_len = 64, .stack = {.num_layers = 4, .num_heads = 4}}
struct LanguageModelConfig {
  int64_t vocab_size = 0;      ///< vocabulary size V; required
  int64_t max_seq_len = 64;    ///< maximum sequence length, in tokens
  bool tie_embeddings = true;  ///< the output projection shares the weight of the token embedding
  double logit_scale = 1.0;    ///< factor of the logits
  double final_logit_soft_cap = 0.0;  ///< logits are cap * tanh(logit / cap) (Gemma 2); 0 = off
  StackConfig stack = {};             ///< transformer blocks
};

/// Decoder-only language model (Radford et al. 2019, GPT-2): token embedding with positions, causal
/// transformer blocks, a final norm, and an output projection to the vocabulary.
///
/// State dict: `embedding` (TokenEmbedding), `decoder` (TransformerEncoder) and, unless
/// `tie_embeddings`, `head.weight` (V, E). `decoder` is a TransformerEncoder because a decoder
/// without cross-attention has the same modules as an encoder; it is called with a causal mask.
///
/// In eval mode, any number of threads may call `forward`, `step` and `generate` at the same time.
///
///     LanguageModel model(LanguageModelConfig{.vocab_size = 65});
///     auto logits = model(tokens);  // (B, T) -> (B, T, 65)
class ATTEND_API LanguageModelImpl : public Cloneable<LanguageModelImpl>, public TiedEmbeddings {
 public:
  /// Creates and initializes the model. Throws c10::ValueError if a field of `config` is out of
  /// range.
  explicit LanguageModelImpl(const LanguageModelConfig& config);

  /// Returns the logits (..., T, V) of the next token at each position. `tokens` (B, T) or (T):
  /// int64 in [0, V), T <= config.max_seq_len. `args` may set a mask, a key mask, segments
  /// (packed documents), positions or a sliding window. `need_weights` has no effect: use an
  /// `AttentionRecorder` to get the attention weights. Attention is always causal.
  torch::Tensor forward(const torch::Tensor& tokens, const AttentionArgs& args = {});

  /// Decodes with a KV cache: appends `tokens` (B, T), int64, to the sequences in `cache` and
  /// returns the logits (B, T, V) of `tokens`. Up to rounding, these equal the logits that
  /// `forward` returns at the same positions of the whole sequences. `key_mask` (B, T): bool, true
  /// = token, false = padding; required if the rows have different numbers of tokens. If
  /// `logits_to_keep` is N > 0, returns only the logits of the last N positions, (B, N, V). Throws
  /// c10::ValueError if the cache is full or, on the CPU, a token is out of range. If a call
  /// throws, the cache is unchanged.
  ///
  ///     auto cache = model->make_cache(1);
  ///     auto logits = model->step(prompt, cache);   // (1, T, V)
  ///     logits = model->step(next_token, cache);    // (1, 1, V)
  torch::Tensor step(const torch::Tensor& tokens, KvCache& cache,
                     const torch::Tensor& key_mask = {}, int64_t logits_to_keep = 0);

  /// Returns an empty KV cache for `batch_size` sequences of up to `max_seq_len` tokens, by default
  /// `config.max_seq_len`. With sliding windows, sequences may be longer: see `cache_options`. The
  /// cache has the dtype of the weights or, under autocast, the autocast dtype. Each thread needs
  /// its own cache.
  KvCache make_cache(int64_t batch_size, std::optional<int64_t> max_seq_len = std::nullopt) const;

  /// Returns the logits (..., T, V) of the hidden states `x` (..., T, E), the output of
  /// `decoder`. Applies the output projection, then `logit_scale`, then `final_logit_soft_cap`.
  torch::Tensor logits(const torch::Tensor& x) const;

  void untie_embeddings() override;
  void retie_embeddings() override;

  /// Recreates the submodules with newly initialized weights.
  void reset() override;
  /// Prints the class and the main fields of the config.
  void pretty_print(std::ostream& stream) const override;

  LanguageModelConfig config;           ///< config passed to the constructor
  TokenEmbedding embedding{nullptr};    ///< tokens and positions to hidden states
  TransformerEncoder decoder{nullptr};  ///< transformer blocks and the final norm
  torch::nn::Linear head{nullptr};      ///< output projection; empty if tie_embeddings

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())})

 private:
  bool was_tied_ = false;  // before `untie_embeddings`
};
ATTEND_MODULE(LanguageModel, (const torch::Tensor& tokens, const AttentionArgs& args = {}),
              (tokens, args));

}  // namespace attend
