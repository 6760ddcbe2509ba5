#pragma once

#include "attend/models/language_model.h"
#include "attend/train/evaluation.h"
#include "attend/train/task.h"

namespace attend::train {

/// Where a run stands after some steps.
struct Progress {
  int64_t step = 0;                ///< steps done
  double loss = 0.0;               ///< of the last batch, nats a token
  double learning_rate = 0.0;      ///< of the last step
  double gradient_norm = 0.0;      ///< of the last step, before clipping
  double seconds = 0.0;            ///< since the start, evaluations included
  double tokens_per_second = 0.0;  ///< over the steps since the last report, evaluations excluded
};

/// Hears what training does: progress every `log_every` steps and before each evaluation. The
/// trainer prints nothing itself.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_progress(const Progress& /*progress*/) {}
  virtual void on_evaluation(int64_t /*step*/, const Evaluation& /*evaluation*/) {}
};

/// What a finished run reached.
struct Outcome {
  Evaluation evaluation;  ///< after the last step
  double train_loss = 0.0;
  double seconds = 0.0;
  double tokens_per_second = 0.0;  ///< over all steps, evaluations excluded
};

/// Trains `model` on `task`: AdamW, warm-up and cosine decay, gradient clipping; evaluates every
/// `eval_every` steps and after the last. The same seed, thread count and machine give the same
/// weights, bit for bit: LibTorch's global generator, which dropout draws from, is seeded. Throws
/// std::runtime_error, naming the step, if the loss is not finite.
///
///     auto outcome = train(model, *task, recipe.training, {&progress_line});
Outcome train(LanguageModel& model, const Task& task, const TrainingConfig& config,
              const std::vector<Observer*>& observers = {});

}  // namespace attend::train
