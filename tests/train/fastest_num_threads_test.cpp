#include "attend/train/trainer.h"
#include "support/seed.h"
#include "support/small_runs.h"
#include "train/device.h"

#include <gmock/gmock.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

namespace attend::train {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// Returns the chosen number of threads, and all numbers that were tried, in order. A call with N
/// threads takes `milliseconds[N]`.
std::pair<int64_t, std::vector<int64_t>> choice(const std::map<int64_t, double>& milliseconds) {
  std::vector<int64_t> tried;
  const auto chosen = fastest_num_threads(
      [&](int64_t threads) {
        tried.push_back(threads);
        return milliseconds.at(threads) / 1000.0;
      },
      milliseconds.rbegin()->first);
  return {chosen, tried};
}

TEST(FastestNumThreads, IsTheFastestOfTheHalves) {
  EXPECT_EQ(choice({{4, 80}, {2, 20}, {1, 50}}).first, 2);
  EXPECT_EQ(choice({{4, 20}, {2, 45}, {1, 90}}).first, 4);
  EXPECT_EQ(choice({{6, 90}, {3, 60}, {2, 50}, {1, 20}}).first, 1);
  EXPECT_EQ(choice({{1, 1}}).first, 1);
}

TEST(FastestNumThreads, TriesOneThreadAfterSlowerNumbers) {
  EXPECT_EQ(choice({{4, 80}, {2, 130}, {1, 20}}).first, 1);
  EXPECT_EQ(choice({{8, 80}, {4, 200}, {2, 900}, {1, 20}}).first, 1);
  EXPECT_EQ(choice({{8, 80}, {4, 200}, {2, 20}, {1, 900}}).first, 2);
}

TEST(FastestNumThreads, RoundsHalvesUp) {
  EXPECT_EQ(choice({{3, 80}, {2, 20}, {1, 100}}).first, 2);
  EXPECT_THAT(choice({{11, 80}, {6, 80}, {3, 80}, {2, 80}, {1, 80}}).second,
              ElementsAre(11, 6, 3, 2, 1));
}

TEST(FastestNumThreads, StopsBeforeOneOnlyIfCallsTakeSeconds) {
  EXPECT_THAT(choice({{8, 600}, {4, 1200}, {2, 2400}, {1, 4800}}), Pair(8, ElementsAre(8, 4)));
  EXPECT_THAT(choice({{8, 200}, {4, 400}, {2, 800}, {1, 1600}}), Pair(8, ElementsAre(8, 4, 2, 1)));
  EXPECT_THAT(choice({{4, 9000}, {2, 3000}, {1, 4000}}), Pair(2, ElementsAre(4, 2, 1)))
      << "must not stop while fewer threads are faster";
}

TEST(FastestNumThreads, PrefersFewerThreadsThatAreAboutAsFast) {
  EXPECT_EQ(choice({{2, 60}, {1, 60}}).first, 1);
  EXPECT_EQ(choice({{4, 60}, {2, 63}, {1, 80}}).first, 2);
}

/// All numbers are tried, since no call takes more than a second.
TEST(FastestNumThreads, IsNeverMuchSlowerThanTheBest) {
  seed_afresh();
  for (int i = 0; i < 1000; ++i) {
    std::map<int64_t, double> milliseconds;
    double best = INFINITY;
    for (int64_t threads = draw(1, 64);; threads = (threads + 1) / 2) {
      milliseconds[threads] = static_cast<double>(draw(1, 1000));
      best = std::min(best, milliseconds[threads]);
      if (threads == 1) break;
    }
    EXPECT_LE(milliseconds[choice(milliseconds).first], 2.5 * best)
        << testing::PrintToString(milliseconds);
  }
}

TEST(MeanSeconds, TimesTheWorkWithTheNumberOfThreads) {
  const int before = torch::get_num_threads();
  std::vector<int> threads;
  const double seconds = mean_seconds(
      [&] {
        threads.push_back(torch::get_num_threads());
        std::this_thread::sleep_for(std::chrono::milliseconds(25));
      },
      before + 1);
  EXPECT_GE(seconds, 0.025);
  EXPECT_GE(threads.size(), 2);
  EXPECT_THAT(threads, testing::Each(before + 1));
  EXPECT_EQ(torch::get_num_threads(), before);
}

/// Trains while LibTorch is set to `available` threads.
TrainResult train(SmallRun& run, int64_t available, const TrainerHooks& hooks = {}) {
  const NumThreadsGuard guard(available);
  auto result = run.trainer.run(hooks);
  EXPECT_EQ(torch::get_num_threads(), available) << "the number of threads must be restored";
  return result;
}

Recipe recipe_with(int64_t threads) {
  auto recipe = small_recipe("balanced-brackets");
  recipe.training.threads = threads;
  return recipe;
}

TEST(TrainerThreads, ConfiguredNumberIsUsed) {
  SmallRun run(recipe_with(3));
  int during = 0;
  train(run, 2, {.stop_requested = [&] { return (during = torch::get_num_threads()) == 0; }});
  EXPECT_EQ(during, 3);
  EXPECT_EQ(run.trainer.state().threads, 3);
}

TEST(TrainerThreads, MeasuringDoesNotChangeTheResult) {
  SmallRun measured(recipe_with(0));
  const auto chosen = train(measured, 2).state.threads;
  EXPECT_TRUE(chosen == 1 || chosen == 2) << chosen;
  SmallRun configured(recipe_with(chosen));
  const auto state = train(configured, 2).state;
  EXPECT_TRUE(equal_tensors(measured.weights(), configured.weights()));
  EXPECT_EQ(measured.trainer.state().tokens, state.tokens);
  EXPECT_TRUE(
      equal_tensors(measured.trainer.checkpoint().state, configured.trainer.checkpoint().state));
}

TEST(TrainerThreads, ResumedRunUsesTheNumberOfItsCheckpoint) {
  for (const int64_t recorded : {1, 2}) {
    SmallRun first(recipe_with(recorded));
    train(first, 2, {.stop_requested = [] { return true; }});
    SmallRun resumed(recipe_with(0));
    resumed.trainer.restore(first.trainer.checkpoint());
    EXPECT_EQ(train(resumed, 2).state.threads, recorded);
  }
}

TEST(TrainerThreads, OneAvailableThreadIsNotMeasured) {
  SmallRun run(recipe_with(0));
  EXPECT_EQ(train(run, 1).state.threads, 1);
}

}  // namespace
}  // namespace attend::train
