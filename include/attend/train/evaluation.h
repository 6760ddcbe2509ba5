#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace attend::train {

/// Number of correct predictions and number of all predictions. For the models of this library,
/// sequences are counted: a sequence is correct if every token of its answer is predicted
/// correctly. For tags and masked tokens, the words or tokens are counted, and for a dataset of
/// torch::data, samples.
struct ExactMatch {
  int64_t correct = 0;  ///< number of correct sequences, tokens or samples
  int64_t total = 0;    ///< number of sequences that have an answer, of tokens or samples

  /// Adds the counts of another batch.
  ExactMatch& operator+=(const ExactMatch& other) {
    correct += other.correct;
    total += other.total;
    return *this;
  }
  /// Returns correct / total, 0 to 1; std::nullopt if total is 0.
  std::optional<double> accuracy() const {
    if (total == 0) return std::nullopt;
    return static_cast<double>(correct) / static_cast<double>(total);
  }
};

/// Result of an evaluation on validation data.
struct Evaluation {
  double loss = 0.0;            ///< mean over the targets
  ExactMatch exact_match = {};  ///< correct predictions; total 0 for data without answers
  int64_t num_targets = 0;      ///< number of targets
  bool is_partial = false;      ///< true: on a part of the validation data; see `eval_batches`
  /// Macro F1 of the classes, 0 to 1, see `macro_f1`; for tags of entities, the F1 of all entities.
  std::optional<double> f1 = {};
  bool is_best = false;  ///< set by `Trainer`: the best evaluation so far by `best_metric`
  /// Result of `confusion_matrix`, (C, C) int64, of `multi_label_confusion_matrix`, (C, 2, 2), or
  /// of `entity_confusion_matrix`, (N, 2, 2); undefined unless the model is a SequenceClassifier of
  /// classes, labels or tags.
  torch::Tensor confusion_matrix = {};
  /// Result of `regression_moments`; undefined unless the problem is a regression.
  torch::Tensor moments = {};

  /// Returns the accuracy of `exact_match`, 0 to 1; std::nullopt if its total is 0, for example for
  /// data without answers.
  std::optional<double> accuracy() const { return exact_match.accuracy(); }
};

/// Batch size of evaluations. It affects the results only by rounding errors.
inline constexpr int64_t kEvalBatchSize = 64;

/// Returns at most `max_count` of the indices 0 to count - 1, spread evenly; all of them if
/// `max_count` is 0.
///
///     spread(10, 3) == std::vector<int64_t>{0, 3, 6};
inline std::vector<int64_t> spread(int64_t count, int64_t max_count) {
  const auto size = max_count == 0 ? count : std::min(count, max_count);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < size; ++i) indices.push_back(i * count / size);
  return indices;
}

}  // namespace attend::train
