#pragma once

#include "attend/api.h"
#include "attend/train/problem.h"

#include <torch/types.h>

namespace attend::train {

/// Target that the loss ignores (ignore_index), for example at padding.
inline constexpr int64_t kIgnoreIndex = -100;

/// Sequences and targets for a model of this library.
struct Batch {
  torch::Tensor tokens;  ///< (B, T) int64: input; for a Seq2Seq, the source. The tokens and targets
                         ///< of `text_windows` may have a narrower dtype; see `with_int64`
  torch::Tensor targets;  ///< int64: class, next token or `kIgnoreIndex`; (B, T) for a
                          ///< LanguageModel, (B, U) for a Seq2Seq, (B) for a SequenceClassifier;
                          ///< float32 (B, C) for labels (0 or 1) and (B, 1) for numbers, see
                          ///< `problem`
  torch::Tensor answers = {};  ///< bool, shape of `targets`: true = counted in the accuracy;
                               ///< undefined if the task has no accuracy
  torch::Tensor key_mask =
      {};  ///< (B, T) bool: true = token, false = padding; undefined = no padding
  torch::Tensor decoder_tokens = {};  ///< (B, U) int64: decoder input of a Seq2Seq
  torch::Tensor is_truncated = {};    ///< (B) bool: true = tokens of the text were removed;
                                      ///< undefined if the task truncates no texts
  Problem problem = {};               ///< what a SequenceClassifier predicts
  torch::Tensor segments = {};   ///< (B, T) int64: example of each token of packed examples, which
                                 ///< attends only to its own; undefined = rows of one example
  torch::Tensor positions = {};  ///< (B, T) int64: position of each token in its example; defined
                                 ///< if `segments` is
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
          map(batch.key_mask), map(batch.decoder_tokens), map(batch.is_truncated),
          batch.problem,       map(batch.segments),       map(batch.positions)};
}

/// Returns a batch with int64 in place of narrower integer dtypes. `evaluate` calls it for one
/// batch at a time, so that the batches of a large text need little memory.
inline Batch with_int64(const Batch& batch) {
  return map_batch(batch, [](const torch::Tensor& tensor) {
    const auto type = tensor.scalar_type();
    const bool is_narrow =
        c10::isIntegralType(type, /*includeBool=*/false) || c10::isBarebonesUnsignedType(type);
    return is_narrow ? tensor.to(torch::kLong) : tensor;
  });
}

/// Returns the rows of `batch` with the indices `index` (N), int64. The columns at the end that are
/// padding in all of these rows are removed, at most all but one: a model needs no time for them.
///
///     auto pair = select_rows(examples, torch::tensor({3, 0}));  // as long as the longer row
ATTEND_API Batch select_rows(const Batch& batch, const torch::Tensor& index);

}  // namespace attend::train
