#pragma once

#include "attend/models/language_model.h"
#include "attend/train/task.h"

#include <optional>

namespace attend::train {

/// How well a model does on the held-out part of a task.
struct Evaluation {
  double loss = 0.0;               ///< mean cross-entropy of a token, in nats
  std::optional<double> accuracy;  ///< share of right answers, 0 to 1, if the task has answers
  int64_t tokens = 0;              ///< how many targets the loss is the mean of
};

/// Measures `model` on the whole held-out part, in eval mode and without gradients.
///
///     auto evaluation = evaluate(model, *task);
Evaluation evaluate(LanguageModel& model, const Task& task);

}  // namespace attend::train
