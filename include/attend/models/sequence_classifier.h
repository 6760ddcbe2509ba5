#pragma once

#include "attend/api.h"
#include "attend/models/stack_config.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/norms.h"
#include "attend/nn/token_embedding.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/linear.h>

namespace attend {

/// Pooling of the token vectors (T, E) of a sequence into one vector (E).
enum class Pooling {
  mean,   ///< mean over the tokens
  max,    ///< maximum over the tokens, per channel
  first,  ///< vector of the first token, as in BERT
  none,   ///< no pooling: each token has its own vector and logits (token classification)
};

/// Configuration of a `SequenceClassifier`.
///
///     SequenceClassifierConfig{.vocab_size = 65, .num_classes = 3, .stack = {.num_layers = 4}}
struct SequenceClassifierConfig {
  int64_t vocab_size = 0;           ///< vocabulary size V; required
  int64_t num_classes = 0;          ///< number of classes C; 0 = no head
  int64_t max_seq_len = 64;         ///< maximum sequence length, in tokens
  int64_t type_vocab_size = 0;      ///< number of token types (segments, BERT); 0 = none
  Pooling pooling = Pooling::mean;  ///< pooling of the token vectors
  bool pooler = false;              ///< linear layer with tanh after pooling, as in BERT
  bool normalize = false;           ///< divide the pooled vector by its L2 norm
  bool masked_lm = false;           ///< predict the token at each position instead of classes
  StackConfig stack = {};           ///< transformer blocks

  /// True if the model has logits for each token, not for the sequence.
  bool predicts_tokens() const { return masked_lm || pooling == Pooling::none; }
};

/// Encoder-only classifier of token sequences: token embedding with positions, bidirectional
/// transformer blocks, a final norm if `config.stack.final_norm` is set, pooling, a linear layer
/// with tanh if `config.pooler` is set, division by the L2 norm if `config.normalize` is set, and a
/// linear layer to C classes. Without classes it is an encoder of texts (Reimers and Gurevych 2019,
/// Sentence-BERT). With Pooling::none, it classifies each token.
///
/// With `config.masked_lm`, it is a masked language model (Devlin et al. 2018, BERT): the vector of
/// each token passes through a linear layer, the activation of the blocks (gelu if that is gated)
/// and a LayerNorm, and is multiplied by the weight of the token embedding. Pooling and classes
/// then have no effect on the logits.
///
/// State dict: `embedding` (TokenEmbedding), `encoder` (TransformerEncoder), `head` (Linear, E to
/// C) if there are classes, `pooler` (Linear, E to E) if `config.pooler` is set and, if
/// `config.masked_lm` is set, `lm_dense` (Linear, E to E), `lm_norm` (LayerNorm) and `lm_bias` (V).
///
/// In eval mode, any number of threads may call `forward` at the same time.
///
///     SequenceClassifier model(SequenceClassifierConfig{.vocab_size = 65, .num_classes = 2});
///     auto logits = model(tokens, tokens != kPad);  // (B, T) -> (B, 2)
class ATTEND_API SequenceClassifierImpl : public Cloneable<SequenceClassifierImpl> {
 public:
  /// Creates and initializes the model. Throws c10::ValueError if a field of `config` is out of
  /// range.
  explicit SequenceClassifierImpl(const SequenceClassifierConfig& config);

  /// Returns the logits (B, C), or the vectors (B, E) of `encode` if there are no classes; with
  /// Pooling::none, (B, T, C) or (B, T, E); of a masked language model, the logits (B, T, V).
  /// Arguments: see `encode`.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& key_mask = {},
                        const torch::Tensor& token_types = {});

  /// Returns the vectors (B, E) from which the head computes the logits, or (E) without a batch
  /// dimension; with Pooling::none, (B, T, E) or (T, E). `tokens` (B, T) or (T): int64 in [0, V).
  /// `key_mask`: bool, the shape of `tokens`, true = token, false = padding; by default all are
  /// tokens. Padding has no effect on the result, except that padding on the left shifts learned
  /// and sinusoidal positions. A sequence that contains only padding is pooled to zeros.
  /// `token_types`: integers in [0, type_vocab_size), the shape of `tokens`; by default 0.
  torch::Tensor encode(const torch::Tensor& tokens, const torch::Tensor& key_mask = {},
                       const torch::Tensor& token_types = {});

  /// Recreates the submodules with newly initialized weights.
  void reset() override;
  /// Prints the class and the main fields of the config.
  void pretty_print(std::ostream& stream) const override;

  SequenceClassifierConfig config;      ///< config passed to the constructor
  TokenEmbedding embedding{nullptr};    ///< tokens and positions to hidden states
  TransformerEncoder encoder{nullptr};  ///< transformer blocks and the final norm
  torch::nn::Linear pooler{nullptr};    ///< linear layer after pooling; empty unless config.pooler
  torch::nn::Linear head{nullptr};      ///< pooled vector to logits; empty without classes
  torch::nn::Linear lm_dense{nullptr};  ///< first layer of a masked language model's head
  LayerNorm lm_norm{nullptr};           ///< norm of a masked language model's head
  torch::Tensor lm_bias;                ///< (V): bias of a masked language model's logits

 private:
  /// Returns the vector of each token, (..., T, E).
  torch::Tensor encode_each(const torch::Tensor& tokens, const torch::Tensor& key_mask,
                            const torch::Tensor& token_types);

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())},
                           {2, torch::nn::AnyValue(torch::Tensor())})
};
ATTEND_MODULE(SequenceClassifier,
              (const torch::Tensor& tokens, const torch::Tensor& key_mask = {},
               const torch::Tensor& token_types = {}),
              (tokens, key_mask, token_types));

/// Names of the `Pooling` values in recipe files and flags.
template <>
struct EnumNames<Pooling> {
  static constexpr std::array<std::string_view, 4> names{"mean", "max", "first", "none"};
};

}  // namespace attend
