#pragma once

#include <torch/types.h>

namespace attend::train {

/// A target that counts for nothing, as padding does.
inline constexpr int64_t kIgnored = -100;

/// Sequences, and what a model should say of them.
struct Batch {
  torch::Tensor tokens;   ///< (B, T) int64: what is read; of a Seq2Seq, the source
  torch::Tensor targets;  ///< int64, or kIgnored: the token after each (B, T), of a Seq2Seq after
                          ///< each token of `decoder_tokens` (B, U), of a classifier the class (B)
  torch::Tensor answers = {};  ///< bool, as targets: those that accuracy counts; undefined if the
                               ///< task has no notion of a right answer
  torch::Tensor key_mask =
      {};  ///< (B, T) bool, true = a token, false = padding; undefined = all tokens
  torch::Tensor decoder_tokens = {};  ///< (B, U) int64: what the decoder of a Seq2Seq reads
};

/// The same function of every tensor that is defined.
///
///     batch = map_batch(batch, [&](const auto& tensor) { return tensor.to(device); });
template <typename Function>
Batch map_batch(const Batch& batch, const Function& function) {
  const auto map = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? function(tensor) : tensor;
  };
  return {map(batch.tokens), map(batch.targets), map(batch.answers), map(batch.key_mask),
          map(batch.decoder_tokens)};
}

/// The rows that `index` (N) names.
inline Batch select_rows(const Batch& batch, const torch::Tensor& index) {
  return map_batch(batch, [&](const torch::Tensor& tensor) { return tensor.index({index}); });
}

}  // namespace attend::train
