#include "attend/train/schedule.h"

#include "support/seed.h"

#include <gtest/gtest.h>

#include <vector>

namespace attend::train {
namespace {

constexpr ScheduleKind kAll[] = {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::constant,
                                 ScheduleKind::wsd};

/// 10 warm-up steps to the learning rate 1, then 101 steps. The minimum learning rate is 0.1.
TrainingConfig config_of(ScheduleKind schedule) {
  TrainingConfig config;
  config.schedule = schedule;
  config.lr = 1.0;
  config.min_lr_ratio = 0.1;
  config.warmup_steps = 10;
  config.max_steps = 111;
  return config;
}

/// Learning rates of all steps.
std::vector<double> course(const TrainingConfig& config) {
  std::vector<double> rates;
  for (int64_t step = 0; step < config.max_steps; ++step) rates.push_back(lr_at(config, step));
  return rates;
}

TEST(Schedule, WarmUpIsLinear) {
  for (const auto schedule : kAll) {
    const auto rates = course(config_of(schedule));
    EXPECT_DOUBLE_EQ(rates[0], 0.1);
    EXPECT_DOUBLE_EQ(rates[4], 0.5);
    EXPECT_DOUBLE_EQ(rates[9], 1.0);
    EXPECT_DOUBLE_EQ(rates[10], 1.0);
  }
}

TEST(Schedule, CosineDecay) {
  const auto rates = course(config_of(ScheduleKind::cosine));
  EXPECT_NEAR(rates[35], 0.1 + 0.9 * 0.8535533905932737, 1e-12);  // (1 + cos(pi/4)) / 2
  EXPECT_NEAR(rates[60], 0.55, 1e-12);
  EXPECT_EQ(rates[110], 0.1);
}

TEST(Schedule, LinearDecay) {
  const auto rates = course(config_of(ScheduleKind::linear));
  EXPECT_NEAR(rates[35], 0.775, 1e-12);
  EXPECT_NEAR(rates[60], 0.55, 1e-12);
  EXPECT_EQ(rates[110], 0.1);
}

TEST(Schedule, ConstantStays) {
  const auto rates = course(config_of(ScheduleKind::constant));
  for (std::size_t step = 10; step < 111; ++step) EXPECT_EQ(rates[step], 1.0);
}

TEST(Schedule, WsdDecaysOverTheCooldown) {
  auto config = config_of(ScheduleKind::wsd);
  config.cooldown_fraction = 20.0 / 111.0;
  const auto rates = course(config);
  for (std::size_t step = 10; step <= 90; ++step) EXPECT_EQ(rates[step], 1.0) << step;
  EXPECT_LT(rates[91], 1.0);
  EXPECT_NEAR(rates[100], 0.55, 1e-12);
  EXPECT_EQ(rates[110], 0.1);
}

TEST(Schedule, WsdWithCooldownFractionsZeroAndOne) {
  auto config = config_of(ScheduleKind::wsd);
  config.cooldown_fraction = 0.0;
  EXPECT_EQ(course(config), course(config_of(ScheduleKind::constant)));
  config.cooldown_fraction = 1.0;
  EXPECT_EQ(course(config), course(config_of(ScheduleKind::linear)));
}

TEST(Schedule, WorksWithoutWarmUpAndForOneStep) {
  for (const auto schedule : kAll) {
    auto config = config_of(schedule);
    config.warmup_steps = 0;
    config.max_steps = 1;
    EXPECT_EQ(course(config), std::vector{1.0});
    config.max_steps = 2;
    const double last = schedule == ScheduleKind::constant ? 1.0 : 0.1;
    config.cooldown_fraction = 0.5;
    EXPECT_EQ(course(config), (std::vector{1.0, last}));
  }
}

TEST(Schedule, WarmUpLongerThanTheRunNeverReachesThePeak) {
  for (const auto schedule : kAll) {
    auto config = config_of(schedule);
    config.warmup_steps = 100;
    config.max_steps = 10;
    EXPECT_DOUBLE_EQ(course(config).back(), 0.1);
  }
}

TEST(Schedule, StaysWithinBoundsAndEndsAtTheMinimum) {
  seed_afresh();
  for (int i = 0; i < 500; ++i) {
    TrainingConfig config;
    config.schedule = kAll[draw(0, 3)];
    config.max_steps = draw(1, 12);
    config.warmup_steps = draw(0, 14);
    config.cooldown_fraction = static_cast<double>(draw(0, 4)) / 4;
    config.min_lr_ratio = static_cast<double>(draw(0, 7)) / 7;
    config.lr = static_cast<double>(draw(0, 1000)) / 997;
    SCOPED_TRACE(testing::Message() << to_string(config.schedule) << " steps " << config.max_steps
                                    << " warmup " << config.warmup_steps << " cooldown "
                                    << config.cooldown_fraction << " lr " << config.lr);
    const auto rates = course(config);
    for (const double rate : rates) {
      EXPECT_LE(rate, config.lr);  // false for NaN
      EXPECT_GE(rate, 0.0);
    }
    const bool has_room = config.warmup_steps < config.max_steps - 1;
    const bool falls = config.schedule == ScheduleKind::cosine ||
                       config.schedule == ScheduleKind::linear ||
                       (config.schedule == ScheduleKind::wsd &&
                        config.cooldown_fraction * static_cast<double>(config.max_steps) >= 0.5);
    if (has_room && falls) {
      EXPECT_EQ(rates.back(), config.min_lr_ratio * config.lr);
    }
  }
}

}  // namespace
}  // namespace attend::train
