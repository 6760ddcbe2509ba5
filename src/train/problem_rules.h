#pragma once

#include "attend/train/batch.h"
#include "attend/train/evaluation.h"
#include "attend/train/objective.h"
#include "attend/train/task.h"

#include <string>
#include <vector>

namespace attend::train {

/// What follows from the type of a problem. The models that are no classifiers use the rules of
/// single-label classification: their targets are tokens.
///
/// Shapes: `logits` (B, C), or (B, T, V) for tokens; a regression has C = 1.
struct ProblemRules {
  /// Returns the targets (B) or (B, C) of examples. Throws InputError for a label that is not in
  /// `classes`, or is not a number.
  torch::Tensor (*targets)(const std::vector<Example>& examples,
                           const std::vector<std::string>& classes);
  /// Returns the number of targets of a batch, of which `loss` is the sum.
  int64_t (*num_targets)(const Batch& batch);
  /// Returns the loss, summed over the targets; `class_weights` may be undefined.
  torch::Tensor (*loss)(const torch::Tensor& logits, const Batch& batch, double label_smoothing,
                        const torch::Tensor& class_weights);
  /// Returns the number of exactly correct predictions; see `ExactMatch`.
  ExactMatch (*exact_match)(const torch::Tensor& logits, const Batch& batch);
  /// Adds the metrics of a classifier to `evaluation`.
  void (*measure)(const torch::Tensor& logits, const Batch& batch, Evaluation& evaluation);
  /// Returns the probabilities of classes or labels, or the numbers, with the shape of `logits`.
  torch::Tensor (*predictions)(const torch::Tensor& logits);
  /// Returns the text of the predictions (C) of one example.
  std::string (*answer)(const torch::Tensor& predictions, const std::vector<std::string>& classes,
                        const Problem& problem);
};

/// Returns the rules of a type.
const ProblemRules& rules_of(ProblemType type);

/// Returns the number that is the label of a regression. Throws InputError if it is no
/// number, or not finite in float32.
double number_label(const std::string& label);

/// Returns labels as text: "a, b", or "(none)".
std::string labels_text(const std::vector<std::string>& labels);

}  // namespace attend::train
