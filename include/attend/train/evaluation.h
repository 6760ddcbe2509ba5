#pragma once

#include "attend/train/model.h"

#include <optional>
#include <vector>

namespace attend::train {

class Task;

/// How often a model was right.
struct ExactMatch {
  int64_t correct = 0;  ///< sequences all of whose answers are the model's likeliest
  int64_t total = 0;    ///< sequences that ask for an answer

  ExactMatch& operator+=(const ExactMatch& other);
  std::optional<double> accuracy() const;  ///< 0 to 1; none if nothing was asked
};

/// Of a batch, by the logits that the model gives for it.
ExactMatch exact_match(const torch::Tensor& logits, const Batch& batch);

/// How well a model does on data that it was not trained on.
struct Evaluation {
  double loss = 0.0;                    ///< mean cross-entropy of a target, in nats
  std::optional<double> accuracy = {};  ///< share of sequences all of whose answers are the model's
                                        ///< likeliest, 0 to 1, if there are answers
  int64_t targets = 0;                  ///< how many targets the loss is the mean of
};

/// Sequences that are measured at once: bounds the memory, does not change the result.
inline constexpr int64_t kRowsAtOnce = 64;

/// Measures `model` on batches, in eval mode and without gradients. That all answers of a sequence
/// are the likeliest, each after the right ones before it, is the same as that the model, left to
/// itself, writes the right answer.
///
///     auto evaluation = evaluate(model, task->validation_batches(kRowsAtOnce));
Evaluation evaluate(Model& model, const std::vector<Batch>& batches);

/// `evaluate` with the whole held-out part of a task.
Evaluation evaluate(Model& model, const Task& task);

}  // namespace attend::train
