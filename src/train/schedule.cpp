#include "attend/train/schedule.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attend::train {
namespace {

/// Returns 0 up to step `first` and 1 at the last step. In between, the value grows linearly with
/// `step`. If `first` is the last step or later, returns 0 at all steps.
double progress_from(const TrainingConfig& config, int64_t step, int64_t first) {
  const int64_t last = config.max_steps - 1;
  if (last <= first) return 0.0;
  const double progress = static_cast<double>(step - first) / static_cast<double>(last - first);
  return std::clamp(progress, 0.0, 1.0);
}

/// Interpolates between the final learning rate (`weight` 0) and the peak learning rate (`weight`
/// 1).
double interpolate(const TrainingConfig& config, double weight) {
  return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * weight);
}

double warmup(const TrainingConfig& config, int64_t step) {
  return config.lr * (static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps));
}

double cosine(const TrainingConfig& config, int64_t step) {
  const double done = progress_from(config, step, config.warmup_steps);
  return interpolate(config, 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
}

/// Returns the learning rate of a schedule that is constant until step `first`, then decays
/// linearly.
double linear(const TrainingConfig& config, int64_t step, int64_t first) {
  return interpolate(config, 1.0 - progress_from(config, step, first));
}

double warmup_stable_decay(const TrainingConfig& config, int64_t step) {
  const int64_t decay_steps =
      std::llround(config.cooldown_fraction * static_cast<double>(config.max_steps));
  return linear(config, step, std::max(config.warmup_steps, config.max_steps - 1 - decay_steps));
}

}  // namespace

double lr_at(const TrainingConfig& config, int64_t step) {
  if (step < config.warmup_steps) return warmup(config, step);
  switch (config.schedule) {
    case ScheduleKind::cosine:
      return cosine(config, step);
    case ScheduleKind::linear:
      return linear(config, step, config.warmup_steps);
    case ScheduleKind::constant:
      return config.lr;
    case ScheduleKind::wsd:
      return warmup_stable_decay(config, step);
  }
  TORCH_CHECK_VALUE(false, "unknown schedule ", static_cast<int>(config.schedule));
}

}  // namespace attend::train
