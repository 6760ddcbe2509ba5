#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <functional>
#include <optional>
#include <vector>

namespace attend::train {

/// Which learning rates are tried.
struct LearningRateRange {
  double lowest = 1e-5;
  double highest = 1.0;
  int64_t steps = 100;  ///< from the one to the other, in equal ratios
};

/// A step of the search.
struct LearningRateTrial {
  double learning_rate = 0.0;
  double loss = 0.0;  ///< before the step, nats a target
};

/// What the search has found.
struct LearningRateSearch {
  std::vector<LearningRateTrial> trials;  ///< in the order of their learning rates
  std::vector<double> smoothed;           ///< the loss of each trial, averaged with its neighbours'
  /// The learning rate to train with; none if the loss never fell.
  std::optional<double> suggestion;
};

/// Trains a model for a few steps while the learning rate rises, and suggests one (Smith 2017,
/// "Cyclical Learning Rates for Training Neural Networks"). The search ends early at a loss
/// that is not finite, and ten trials above the first loss after one a tenth below it. Of `config`,
/// the schedule, the warm-up and the intervals do not count. The model is changed: train another
/// one.
///
///     const auto search = search_learning_rate(model, *task, recipe.training);
///     if (search.suggestion) recipe.training.lr = *search.suggestion;
///
/// `stop_requested` is asked after each step.
LearningRateSearch search_learning_rate(Model model, const Task& task, TrainingConfig config,
                                        const LearningRateRange& range = {},
                                        const std::function<bool()>& stop_requested = {});

/// The suggestion for a curve of smoothed losses: where the loss falls fastest; none if it never
/// falls by a tenth of its first value.
std::optional<double> suggest_learning_rate(const std::vector<LearningRateTrial>& trials,
                                            const std::vector<double>& smoothed);

}  // namespace attend::train
