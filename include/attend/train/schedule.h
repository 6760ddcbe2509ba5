#pragma once

#include "attend/api.h"
#include "attend/train/training_config.h"

#include <functional>

namespace attend::train {

/// Maps a step, counted from 0, to its learning rate.
using Schedule = std::function<double(int64_t step)>;

/// Returns the learning rate of a step; `step` is counted from 0. During the first `warmup_steps`
/// steps, the learning rate grows linearly to `lr`. It then follows `config.schedule`:
///
/// - cosine: decay along half a cosine period, until the last step (Loshchilov and Hutter 2017)
/// - linear: linear decay until the last step
/// - constant: `lr`
/// - wsd: `lr`, then linear decay over the last `cooldown_fraction * max_steps` steps, but not
///   before the end of the warm-up (Hu et al. 2024, MiniCPM)
///
/// cosine, linear and wsd end at `min_lr_ratio * lr`. There are two exceptions, in which the
/// learning rate stays at `lr`: fewer than two steps follow the warm-up, or the schedule is wsd and
/// `cooldown_fraction * max_steps` rounds to 0.
///
///     set_lr(*optimizer, lr_at(config, step));
ATTEND_API double lr_at(const TrainingConfig& config, int64_t step);

}  // namespace attend::train
