#pragma once

#include "attend/api.h"
#include "attend/enum_names.h"

#include <torch/arg.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

namespace attend {

/// How a token's position enters its vector.
enum class Positions {
  none,        ///< not at all: attention then sees a set, not a sequence
  learned,     ///< a vector for each position is learned, as in GPT-2
  sinusoidal,  ///< sines and cosines, Vaswani et al. 2017, section 3.5
};

template <>
struct EnumNames<Positions> {
  static constexpr std::array<std::string_view, 3> names{"none", "learned", "sinusoidal"};
};

/// Options for `TokenEmbedding`.
///
///     TokenEmbeddingOptions(65, 128, 64).positions(Positions::sinusoidal)
struct TokenEmbeddingOptions {
  TokenEmbeddingOptions(int64_t vocab_size, int64_t embed_dim, int64_t max_seq_len)
      : vocab_size_(vocab_size), embed_dim_(embed_dim), max_seq_len_(max_seq_len) {}

  /// Number of tokens V.
  TORCH_ARG(int64_t, vocab_size);
  /// Width E of the vectors.
  TORCH_ARG(int64_t, embed_dim);
  /// Longest sequence, in tokens.
  TORCH_ARG(int64_t, max_seq_len);
  TORCH_ARG(Positions, positions) = Positions::learned;
  /// Probability that an element of the sum is dropped while training.
  TORCH_ARG(double, dropout) = 0.0;
};

/// Turns tokens into vectors: the token's own plus that of its position.
///
/// State dict: `token` (V, E) and, for learned positions, `position` (max_seq_len, E), each an
/// Embedding.
///
///     TokenEmbedding embedding(TokenEmbeddingOptions(65, 128, 64));
///     auto x = embedding(tokens);  // (B, T) -> (B, T, 128)
class ATTEND_API TokenEmbeddingImpl : public torch::nn::Cloneable<TokenEmbeddingImpl> {
 public:
  explicit TokenEmbeddingImpl(const TokenEmbeddingOptions& options);

  /// `tokens` (B, T) or (T) of int64 or int32 in 0 .. V-1, returns (..., T, E). `positions` (B, T)
  /// or (T), in steps, for learned ones below `max_seq_len`, tell where they stand; 0 .. T-1 if not
  /// given. Throws c10::ValueError if T is above `max_seq_len` and, on a CPU, for a token or a
  /// learned position out of range, c10::TypeError for another dtype.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& positions = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  TokenEmbeddingOptions options;
  torch::nn::Embedding token{nullptr};
  /// Maps positions (..., T) to vectors (..., T, E); empty if there are none.
  torch::nn::AnyModule position;
  torch::nn::Dropout dropout{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})
};
TORCH_MODULE(TokenEmbedding);

}  // namespace attend
