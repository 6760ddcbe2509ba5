#pragma once

#include "attend/train/training_config.h"

#include <functional>

namespace attend::train {

/// A learning rate for each step, counted from 0.
using Schedule = std::function<double(int64_t step)>;

/// The learning rate of a step, counted from 0. It rises in a line to `lr` over the first `warmup`
/// steps; then it goes as `schedule` says:
///
/// - cosine: falls along half a cosine to the last step (Loshchilov and Hutter 2017)
/// - linear: falls in a line to the last step
/// - constant: stays at `lr`
/// - wsd: stays, and falls in a line over the last `cooldown * steps` steps, rounded, or as many of
///   them as the warm-up leaves (Hu et al. 2024, MiniCPM)
///
/// Where it falls, it is `min_lr_ratio * lr` at the last step. A warm-up that leaves no two steps
/// leaves nothing to fall. It is never above `lr`.
///
///     optimizer->step(lr_at(recipe.training, step));
double lr_at(const TrainingConfig& config, int64_t step);

}  // namespace attend::train
