#include "train/fastest_num_threads.h"

#include "attend/train/trainer.h"
#include "support/small_runs.h"

#include <gmock/gmock.h>
#include <torch/utils.h>

#include <chrono>
#include <map>
#include <thread>

namespace attend::train {
namespace {

using testing::ElementsAre;

/// Returns the choice if work with N threads takes `milliseconds[N]`, and the numbers tried.
std::pair<int64_t, std::vector<int>> choice(std::map<int, int> milliseconds, int64_t max_threads) {
  std::vector<int> tried;
  const auto chosen = fastest_num_threads(
      [&] {
        const int threads = torch::get_num_threads();
        if (tried.empty() || tried.back() != threads) tried.push_back(threads);
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds.at(threads)));
      },
      max_threads);
  return {chosen, tried};
}

TEST(FastestNumThreads, IsTheFastestOfTheHalves) {
  const int before = torch::get_num_threads();
  EXPECT_EQ(choice({{4, 80}, {2, 20}, {1, 50}}, 4).first, 2);
  EXPECT_EQ(choice({{4, 20}, {2, 45}, {1, 90}}, 4).first, 4);
  EXPECT_EQ(choice({{6, 90}, {3, 60}, {1, 20}}, 6).first, 1);
  EXPECT_EQ(choice({{1, 1}}, 1).first, 1);
  EXPECT_EQ(torch::get_num_threads(), before);
}

TEST(FastestNumThreads, DoesNotTryFewerThreadsOnceTheyAreSlower) {
  EXPECT_THAT(choice({{8, 20}, {4, 60}, {2, 120}, {1, 240}}, 8).second, ElementsAre(8, 4));
}

TEST(FastestNumThreads, PrefersFewerThreadsThatAreAboutAsFast) {
  EXPECT_EQ(choice({{2, 60}, {1, 60}}, 2).first, 1);
}

/// Trains with that many available threads.
TrainResult train(SmallRun& run, int64_t available, const TrainerHooks& hooks = {}) {
  const NumThreadsGuard guard(available);
  auto result = run.trainer.run(hooks);
  EXPECT_EQ(torch::get_num_threads(), available) << "changed only during the run";
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
