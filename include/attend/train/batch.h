#pragma once

#include <torch/types.h>

namespace attend::train {

/// Target that the loss ignores (ignore_index), for example at padding.
inline constexpr int64_t kIgnoreIndex = -100;

/// Sequences and targets for a model of this library.
struct Batch {
  torch::Tensor tokens;   ///< (B, T) int64: input; for a Seq2Seq, the source
  torch::Tensor targets;  ///< int64: class, next token or `kIgnoreIndex`; (B, T) for a
                          ///< LanguageModel, (B, U) for a Seq2Seq, (B) for a SequenceClassifier
  torch::Tensor answers = {};  ///< bool, shape of `targets`: true = counted in the accuracy;
                               ///< undefined if the task has no accuracy
  torch::Tensor key_mask =
      {};  ///< (B, T) bool: true = token, false = padding; undefined = no padding
  torch::Tensor decoder_tokens = {};  ///< (B, U) int64: decoder input of a Seq2Seq
  torch::Tensor is_truncated = {};    ///< (B) bool: true = tokens of the text were removed;
                                      ///< undefined if the task truncates no texts
};

/// Returns a batch with `function(tensor)` in place of each defined tensor of `batch`.
///
///     batch = map_batch(batch, [&](const auto& tensor) { return tensor.to(device); });
template <typename Function>
Batch map_batch(const Batch& batch, const Function& function) {
  const auto map = [&](const torch::Tensor& tensor) {
    return tensor.defined() ? function(tensor) : tensor;
  };
  return {map(batch.tokens),   map(batch.targets),        map(batch.answers),
          map(batch.key_mask), map(batch.decoder_tokens), map(batch.is_truncated)};
}

/// Returns the rows of `batch` with the indices `index` (N), int64.
inline Batch select_rows(const Batch& batch, const torch::Tensor& index) {
  return map_batch(batch, [&](const torch::Tensor& tensor) { return tensor.index({index}); });
}

}  // namespace attend::train
