#include "attend/train/schedule.h"

#include <gtest/gtest.h>

namespace attend::train {
namespace {

TEST(Schedule, RisesInALineAndFallsAlongACosine) {
  TrainingConfig config;
  config.lr = 1.0;
  config.min_lr_ratio = 0.1;
  config.warmup = 10;
  config.steps = 111;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 10), 1.0);
  EXPECT_NEAR(learning_rate(config, 60), 0.55, 1e-12);  // half way down
  EXPECT_DOUBLE_EQ(learning_rate(config, 110), 0.1);
}

TEST(Schedule, TakesNoWarmUpAndOneStep) {
  TrainingConfig config;
  config.warmup = 0;
  config.steps = 1;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), config.lr);
  config.steps = 20;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), config.lr);
  EXPECT_DOUBLE_EQ(learning_rate(config, 19), config.lr * config.min_lr_ratio);
}

TEST(Schedule, AWarmUpLongerThanTheRunNeverReachesTheHighestRate) {
  TrainingConfig config;
  config.warmup = 100;
  config.steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(config, 9), config.lr / 10);
}

}  // namespace
}  // namespace attend::train
