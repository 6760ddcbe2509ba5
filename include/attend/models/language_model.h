#pragma once

#include "attend/models/stack_config.h"
#include "attend/nn/kv_cache.h"
#include "attend/nn/token_embedding.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

// Inline: attend::LanguageModel and attend::models::LanguageModel are the same name.
namespace attend {

/// All that a `LanguageModel` is made of.
///
///     LanguageModelConfig{.vocab_size = 65, .max_seq_len = 64, .stack = {.num_layers = 4,
///     .num_heads = 4}}
struct LanguageModelConfig {
  int64_t vocab_size = 0;      ///< number of tokens V; must be set
  int64_t max_seq_len = 64;    ///< longest sequence, in tokens
  bool tie_embeddings = true;  ///< the head uses the token embedding's weight
  StackConfig stack = {};      ///< its blocks
};

/// A decoder-only language model (Radford et al. 2019, GPT-2): token embedding with positions,
/// causal transformer blocks, a final norm, and a head that scores each next token.
///
/// State dict: `embedding` (TokenEmbedding), `decoder` (TransformerEncoder: a decoder that looks at
/// nothing but itself is an encoder with a causal mask) and, unless tied, `head.weight` (V, E).
///
///     LanguageModel model(LanguageModelConfig{.vocab_size = 65});
///     auto logits = model(tokens);  // (B, T) -> (B, T, 65)
class LanguageModelImpl : public torch::nn::Cloneable<LanguageModelImpl> {
 public:
  explicit LanguageModelImpl(const LanguageModelConfig& config);

  /// `tokens` (B, T) or (T), int64 in 0 .. V-1, T at most `context`; returns the logits
  /// (..., T, V): at each position the scores of the token that follows. `args` can say more of who
  /// may attend to whom: documents packed in a row, padding. They are causal whatever `args` say.
  torch::Tensor forward(const torch::Tensor& tokens, const AttentionArgs& args = {});

  /// Continues the sequences in `cache` by `tokens` (B, T); returns the logits (B, T, V) of these.
  /// `valid` (B, T), true = a token, false = padding, lets the rows differ in length. Gives what
  /// `forward` gives for the whole sequences. Throws c10::ValueError if the cache is full.
  ///
  ///     auto cache = model->make_cache(1);
  ///     auto logits = model->step(prompt, cache);   // (1, T, V)
  ///     logits = model->step(next_token, cache);    // (1, 1, V)
  torch::Tensor step(const torch::Tensor& tokens, KvCache& cache, const torch::Tensor& valid = {});

  /// An empty cache for `batch` sequences of up to `context` tokens or, if the model has a window
  /// and its positions are not learned, of any number, each call bringing up to `context`.
  KvCache make_cache(int64_t batch) const;

  /// The logits (..., T, V) of what the last block's norm gives (..., T, E).
  torch::Tensor logits(const torch::Tensor& x) const;

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  LanguageModelConfig config;
  TokenEmbedding embedding{nullptr};
  TransformerEncoder decoder{nullptr};
  torch::nn::Linear head{nullptr};  ///< empty when tied

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(AttentionArgs())})
};
TORCH_MODULE(LanguageModel);

}  // namespace attend
