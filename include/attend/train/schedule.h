#pragma once

#include "attend/train/recipe.h"

namespace attend::train {

/// The learning rate of a step, counted from 0: it rises in a line to `lr` over the first `warmup`
/// steps and falls along half a cosine to `min_lr_ratio * lr` at the last step (Loshchilov and
/// Hutter 2017).
///
///     optimizer.step(learning_rate(recipe.training, step));
double learning_rate(const TrainingConfig& config, int64_t step);

}  // namespace attend::train
