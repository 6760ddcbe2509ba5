#pragma once

#include "attend/models/language_model.h"
#include "attend/train/evaluation.h"
#include "attend/train/observer.h"
#include "attend/train/task.h"

namespace attend::train {

/// What a finished run reached.
struct Outcome {
  Evaluation evaluation;  ///< after the last step
  double train_loss = 0.0;
  double seconds = 0.0;
  double tokens_per_second = 0.0;  ///< over all steps, evaluations excluded
};

/// Trains `model` on `task` with the optimizer and the schedule of `config` and gradient clipping;
/// evaluates every `eval_every` steps and after the last. The same seed, thread count and machine
/// give the same weights, bit for bit: LibTorch's global generator, which dropout draws from, is
/// seeded. Throws std::runtime_error, naming the step, if the loss is not finite.
///
///     auto outcome = train(model, *task, recipe.training, {&progress_line});
Outcome train(LanguageModel& model, const Task& task, const TrainingConfig& config,
              const std::vector<Observer*>& observers = {});

}  // namespace attend::train
