#include "attend/train/schedule.h"

#include <cmath>
#include <numbers>

namespace attend::train {

double learning_rate(const TrainingConfig& config, int64_t step) {
  if (step < config.warmup) {
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(config.warmup);
  }
  const auto decay_steps = static_cast<double>(config.steps - 1 - config.warmup);
  if (decay_steps <= 0) return config.lr;
  const double done = std::fmin(1.0, static_cast<double>(step - config.warmup) / decay_steps);
  const double share = 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * share);
}

}  // namespace attend::train
