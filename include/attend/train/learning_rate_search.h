#pragma once

#include "attend/api.h"
#include "attend/train/objective.h"
#include "attend/train/training_config.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace attend::train {

/// Learning rates that a search tries: `num_steps` values from `min_lr` to `max_lr`, spaced evenly
/// on a log scale.
struct LearningRateRange {
  double min_lr = 1e-5;     ///< first learning rate
  double max_lr = 1.0;      ///< last learning rate
  int64_t num_steps = 100;  ///< number of learning rates, one optimizer step each
};

/// One step of a learning rate search.
struct LearningRateStep {
  double lr = 0.0;    ///< learning rate of the step
  double loss = 0.0;  ///< training loss before the step, mean over the targets
};

/// Result of `search_learning_rate`.
struct LearningRateSearch {
  std::vector<LearningRateStep> steps;  ///< in increasing order of the learning rate
  std::vector<double> smoothed;         ///< centered moving average of the losses
  std::optional<double> suggestion;     ///< suggested learning rate; std::nullopt if there are
                                        ///< fewer than 3 steps, or if all values of `smoothed`
                                        ///< are more than 90 % of the first value
};

/// Learning rate range test (Smith 2017, "Cyclical Learning Rates for Training Neural Networks"):
/// trains for a few steps while the learning rate grows, and suggests the learning rate at which
/// the smoothed loss falls fastest.
///
/// The search stops early at a non-finite loss or gradient. It also stops if training diverges,
/// that is, if the loss falls by more than 10 % and then exceeds the loss of the first step for ten
/// consecutive steps. `lr`, the schedule, `max_steps`, `eval_every`, `log_every` and `on_nonfinite`
/// of `config` are ignored. `stop_requested` is called after each step and stops the search if it
/// returns true. The search trains the module of `objective`: use a new module for the actual
/// training. Throws c10::ValueError unless 0 < min_lr < max_lr and num_steps >= 2. Throws
/// std::runtime_error if a weight is not finite at a step with a non-finite loss or gradient.
///
///     const auto search = search_learning_rate(objective, config);
///     if (search.suggestion) config.lr = *search.suggestion;
ATTEND_API LearningRateSearch search_learning_rate(
    std::shared_ptr<Objective> objective, TrainingConfig config,
    const LearningRateRange& range = {}, const std::function<bool()>& stop_requested = {});

/// Returns the learning rate at which the curve of smoothed losses falls fastest. The part of the
/// curve after its minimum is ignored. Returns std::nullopt if the curve has fewer than three
/// steps, or if its minimum is more than 90 % of its first value.
ATTEND_API std::optional<double> suggest_learning_rate(const std::vector<LearningRateStep>& steps,
                                                       const std::vector<double>& smoothed);

}  // namespace attend::train
