#pragma once

#include "attend/api.h"
#include "attend/arg.h"
#include "attend/enum_names.h"
#include "attend/module_holder.h"
#include "attend/nn/cloneable.h"
#include "attend/nn/module_factory.h"

#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>

namespace attend {

/// Position embedding of `TokenEmbedding`.
enum class PositionEmbedding {
  none,        ///< no position embedding
  learned,     ///< a learned vector per position, as in GPT-2
  sinusoidal,  ///< fixed sines and cosines (Vaswani et al. 2017, section 3.5)
};

template <>
struct EnumNames<PositionEmbedding> {
  static constexpr std::array<std::string_view, 3> names{"none", "learned", "sinusoidal"};
};

/// Options for `TokenEmbedding`.
///
///     TokenEmbeddingOptions(65, 128, 64).positions(PositionEmbedding::sinusoidal)
struct TokenEmbeddingOptions {
  /// Options for a vocabulary of V tokens, width E and sequences of up to `max_seq_len` tokens.
  TokenEmbeddingOptions(int64_t vocab_size, int64_t embed_dim, int64_t max_seq_len)
      : vocab_size_(vocab_size), embed_dim_(embed_dim), max_seq_len_(max_seq_len) {}

  /// Vocabulary size V.
  ATTEND_ARG(int64_t, vocab_size);
  /// Width E of the embeddings.
  ATTEND_ARG(int64_t, embed_dim);
  /// Maximum sequence length in tokens.
  ATTEND_ARG(int64_t, max_seq_len);
  /// Position embedding.
  ATTEND_ARG(PositionEmbedding, positions) = PositionEmbedding::learned;
  /// Number of token types, which BERT calls segments; 0 = no token type embedding.
  ATTEND_ARG(int64_t, type_vocab_size) = 0;
  /// Factor by which the token embeddings are multiplied, such as sqrt(E)
  /// (Vaswani et al. 2017, Gemma).
  ATTEND_ARG(double, embedding_scale) = 1.0;
  /// Factory of a norm that is applied to the sum of the embeddings (BERT); none if not set.
  ATTEND_ARG(ModuleFactory, embedding_norm);
  /// Dropout probability of the sum of the embeddings or, if there is a norm, of the norm's output.
  ATTEND_ARG(double, dropout) = 0.0;
};

/// Sum of the token embeddings (times `embedding_scale`), the position embeddings and the token
/// type embeddings. A norm, if set, and dropout are applied to the sum.
///
/// State dict: the Embedding `token` (V, E). With learned positions, also the Embedding `position`
/// (max_seq_len, E). With token types, also the Embedding `token_type` (type_vocab_size, E). With a
/// norm, also the module `norm`.
///
///     TokenEmbedding embedding(TokenEmbeddingOptions(65, 128, 64));
///     auto x = embedding(tokens);  // (B, T) -> (B, T, 128)
class ATTEND_API TokenEmbeddingImpl : public Cloneable<TokenEmbeddingImpl> {
 public:
  /// Throws c10::ValueError if an option is out of range or `embedding_norm` returns an empty
  /// module.
  explicit TokenEmbeddingImpl(const TokenEmbeddingOptions& options);

  /// `tokens` (B, T) or (T), int64 or int32 in [0, V); returns (..., T, E). `positions` (B, T) or
  /// (T), integers; 0 .. T-1 if undefined. `token_types`: in the shape of `tokens`, int64 or int32
  /// in [0, type_vocab_size); all 0 if undefined. Throws c10::ValueError if a shape is wrong, if T
  /// exceeds `max_seq_len`, or if `token_types` is passed but `type_vocab_size` is 0. On the CPU,
  /// except in a trace, also throws c10::ValueError if a token or a token type is out of range, or
  /// if positions are learned and a position is out of range. Throws c10::TypeError for other
  /// dtypes.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& positions = {},
                        const torch::Tensor& token_types = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  TokenEmbeddingOptions options;        ///< options passed to the constructor
  torch::nn::Embedding token{nullptr};  ///< token embedding
  torch::nn::AnyModule position;  ///< (..., T) -> (..., T, E); empty for `PositionEmbedding::none`
  torch::nn::Embedding token_type{nullptr};  ///< token type embedding; empty if there are no types
  torch::nn::AnyModule norm;                 ///< norm of the sum; empty if not set
  /// Dropout after the sum, or after the norm if there is one.
  torch::nn::Dropout dropout{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())},
                           {2, torch::nn::AnyValue(torch::Tensor())})
};
ATTEND_MODULE(TokenEmbedding,
              (const torch::Tensor& tokens, const torch::Tensor& positions = {},
               const torch::Tensor& token_types = {}),
              (tokens, positions, token_types));

}  // namespace attend
