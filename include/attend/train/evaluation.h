#pragma once

#include "attend/models/language_model.h"
#include "attend/train/task.h"

#include <torch/nn/options/loss.h>

#include <optional>

namespace attend::train {

/// How well a model does on the held-out part of a task.
struct Evaluation {
  double loss = 0.0;               ///< mean cross-entropy of a token, in nats
  std::optional<double> accuracy;  ///< share of right answers, 0 to 1, if the task has answers
  int64_t tokens = 0;              ///< how many targets the loss is the mean of
};

/// The cross-entropy of the scores `logits` (B, T, V) with the batch's targets, in nats: the mean
/// over all that count, or their sum.
torch::Tensor batch_loss(const torch::Tensor& logits, const Batch& batch,
                         torch::nn::functional::CrossEntropyFuncOptions::reduction_t reduction);

/// Measures `model` on the whole held-out part, in eval mode and without gradients.
///
///     auto evaluation = evaluate(model, *task);
Evaluation evaluate(LanguageModel& model, const Task& task);

}  // namespace attend::train
