#include "attend/train/learning_rate_search.h"

#include "support/small_runs.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <cmath>

namespace attend::train {
namespace {

LearningRateSearch search_senses(const LearningRateRange& range,
                                 const std::function<bool()>& stop_requested = {}) {
  const SmallRun run(small_recipe("senses"));
  const auto config = small_recipe("senses").training;
  return search_learning_rate(std::make_shared<TaskObjective>(run.model, run.task, config), config,
                              range, stop_requested);
}

/// The suggestion for unsmoothed losses at learning rates 1e-4, 1e-3, ...
std::optional<double> suggestion_for(const std::vector<double>& losses) {
  std::vector<LearningRateStep> steps;
  for (const double loss : losses) {
    steps.push_back({.lr = std::pow(10.0, static_cast<double>(steps.size()) - 4.0), .loss = loss});
  }
  return suggest_learning_rate(steps, losses);
}

TEST(LearningRateSuggestion, IsWhereTheLossFallsFastest) {
  EXPECT_DOUBLE_EQ(suggestion_for({5.0, 4.9, 4.0, 2.0, 1.9, 8.0, 9.0}).value(), 1e-2);
}

TEST(LearningRateSuggestion, IsNotBeyondTheMinimumLoss) {
  EXPECT_DOUBLE_EQ(suggestion_for({5.0, 4.0, 3.5, 3.6, 9.0, 3.6, 3.6}).value(), 1e-3);
}

TEST(LearningRateSuggestion, IsNoneWithoutADecrease) {
  EXPECT_FALSE(suggestion_for({}));
  EXPECT_FALSE(suggestion_for({5.0, 1.0}));
  EXPECT_FALSE(suggestion_for({5.0, 4.9, 4.8, 4.7, 6.0}));
  EXPECT_FALSE(suggestion_for({5.0, 6.0, 7.0}));
}

TEST(LearningRateSearch, SpacesLearningRatesEvenlyOnALogScale) {
  const auto steps = search_senses({.min_lr = 1e-4, .max_lr = 1e-2, .num_steps = 21}).steps;
  ASSERT_EQ(steps.size(), 21);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_NEAR(steps[i].lr, 1e-4 * std::pow(10.0, static_cast<double>(i) / 10), 1e-12);
  }
}

TEST(LearningRateSearch, StopsWhenTheLossDiverges) {
  const auto found = search_senses({.min_lr = 1e-4, .max_lr = 1e6, .num_steps = 200});
  EXPECT_LT(found.steps.size(), 200);
  ASSERT_TRUE(found.suggestion);
  EXPECT_LT(*found.suggestion, 1.0);
  for (const auto& step : found.steps) EXPECT_TRUE(std::isfinite(step.loss));
}

TEST(LearningRateSearch, IsReproducible) {
  const LearningRateRange range{.min_lr = 1e-3, .max_lr = 1e-1, .num_steps = 10};
  EXPECT_EQ(search_senses(range).smoothed, search_senses(range).smoothed);
}

TEST(LearningRateSearch, SuggestionBeatsMuchLowerAndHigherLearningRates) {
  const double suggested = search_senses({}).suggestion.value();
  const auto loss_at = [](double lr) {
    auto recipe = small_recipe("senses", 40);
    recipe.training.lr = lr;
    return SmallRun(recipe).trainer.run().state.last->loss;
  };
  const double loss = loss_at(suggested);
  EXPECT_LT(loss, loss_at(suggested / 100));
  EXPECT_LT(loss, loss_at(suggested * 100));
}

TEST(LearningRateSearch, StopsOnRequest) {
  int calls = 0;
  EXPECT_EQ(search_senses({}, [&] { return ++calls == 5; }).steps.size(), 5);
}

TEST(LearningRateSearchErrors, NameTheRange) {
  for (const auto& range : {LearningRateRange{.min_lr = 0.0}, LearningRateRange{.min_lr = 2.0},
                            LearningRateRange{.num_steps = 1}}) {
    EXPECT_THAT([&] { search_senses(range); },
                throws<c10::ValueError>("expected 0 < min_lr < max_lr and num_steps >= 2"));
  }
}

}  // namespace
}  // namespace attend::train
