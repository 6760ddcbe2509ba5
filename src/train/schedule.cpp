#include "attend/train/schedule.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attend::train {
namespace {

/// A step's share of the way from step `first` to the last, 0 .. 1; 0 if there is no way.
double share_done(const TrainingConfig& config, int64_t step, int64_t first) {
  const int64_t last = config.max_steps - 1;
  if (last <= first) return 0.0;
  const double share = static_cast<double>(step - first) / static_cast<double>(last - first);
  return std::clamp(share, 0.0, 1.0);
}

/// The learning rate that stands at `height` between the lowest (0) and the highest (1).
double between(const TrainingConfig& config, double height) {
  return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * height);
}

double rising(const TrainingConfig& config, int64_t step) {
  return config.lr * (static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps));
}

double cosine(const TrainingConfig& config, int64_t step) {
  const double done = share_done(config, step, config.warmup_steps);
  return between(config, 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
}

/// Stays until step `first`, and falls from there.
double linear(const TrainingConfig& config, int64_t step, int64_t first) {
  return between(config, 1.0 - share_done(config, step, first));
}

double warmup_stable_decay(const TrainingConfig& config, int64_t step) {
  const int64_t falling =
      std::llround(config.cooldown_fraction * static_cast<double>(config.max_steps));
  return linear(config, step, std::max(config.warmup_steps, config.max_steps - 1 - falling));
}

}  // namespace

double lr_at(const TrainingConfig& config, int64_t step) {
  if (step < config.warmup_steps) return rising(config, step);
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
