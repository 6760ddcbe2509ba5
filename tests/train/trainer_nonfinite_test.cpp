#include "attend/train/trainer.h"
#include "support/small_runs.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <cmath>

namespace attend::train {
namespace {

torch::Tensor first_weight(const SmallRun& run) {
  return module_of(run.model).parameters().front();
}

/// A weight that is not a number makes every loss one that is not, either.
void spoil(const SmallRun& run) {
  const torch::NoGradGuard no_grad;
  first_weight(run).fill_(NAN);
}

TEST(TrainerNonFinite, ALossThatIsNotFiniteStopsAndNamesStepAndLearningRate) {
  SmallRun run(small_recipe("senses"));
  spoil(run);
  EXPECT_THAT([&] { run.trainer.run(); },
              throws<std::runtime_error>("nan at step 1, learning rate 0.0015; the last good "
                                         "checkpoint: none yet"));
}

TEST(TrainerNonFinite, NamesTheLatestCheckpoint) {
  auto recipe = small_recipe("senses");
  recipe.training.checkpoint_every = 3;
  SmallRun run(recipe);
  Recorder recorder;
  int64_t step = 0;
  const auto spoil_after_four = [&] {
    if (++step == 4) spoil(run);
    return false;
  };
  EXPECT_THAT(
      [&] { run.trainer.run({.keeper = &recorder, .stop_requested = spoil_after_four}); },
      testing::ThrowsMessage<std::runtime_error>(testing::AllOf(
          testing::HasSubstr("at step 5"), testing::HasSubstr("checkpoint: the latest one"))));
  EXPECT_THAT(recorder.kept, testing::ElementsAre(3));
}

TEST(TrainerNonFinite, SkippingLeavesTheStepOutAndGoesOn) {
  auto recipe = small_recipe("senses");
  recipe.training.on_nonfinite = OnNonFinite::skip;
  recipe.training.log_every = 1;
  SmallRun run(recipe);
  Recorder recorder;
  int64_t step = 0;
  torch::Tensor good;
  std::vector<NamedTensors> after;
  const auto spoil_for_two_steps = [&] {
    ++step;
    if (step == 4) good = first_weight(run).detach().clone();
    after.push_back(run.weights());
    if (step == 4) spoil(run);
    if (step == 6) {
      const torch::NoGradGuard no_grad;
      first_weight(run).copy_(good);
    }
    return false;
  };
  const auto outcome =
      run.trainer.run({.observers = {&recorder}, .stop_requested = spoil_for_two_steps});
  EXPECT_EQ(outcome.standing.step, 10);
  EXPECT_EQ(outcome.standing.skipped, 2);
  EXPECT_EQ(recorder.progress.at(3).skipped, 0);
  EXPECT_EQ(recorder.progress.at(4).skipped, 1);
  EXPECT_EQ(recorder.progress.back().skipped, 2);
  // What was not spoilt is after the two steps what it was before them, and then moves on.
  const auto unchanged = [&](std::size_t one, std::size_t other) {
    const auto* name = "decoder.norm.weight";
    return after.at(one - 1).at(name).equal(after.at(other - 1).at(name));
  };
  EXPECT_TRUE(unchanged(4, 5));
  EXPECT_TRUE(unchanged(4, 6));
  EXPECT_FALSE(unchanged(6, 7));
  EXPECT_TRUE(std::isfinite(outcome.standing.train_loss));
}

TEST(TrainerNonFinite, AFiniteLossAfterOneThatIsNotIsTheBest) {
  auto recipe = small_recipe("senses", 2);
  recipe.training.on_nonfinite = OnNonFinite::skip;
  recipe.training.eval_every = 1;
  SmallRun run(recipe);
  const auto good = first_weight(run).detach().clone();
  spoil(run);
  const auto mend = [&] {
    const torch::NoGradGuard no_grad;
    first_weight(run).copy_(good);
    return false;
  };
  const auto standing = run.trainer.run({.stop_requested = mend}).standing;
  EXPECT_EQ(standing.best_step, 2);
  EXPECT_TRUE(std::isfinite(standing.best->loss));
}

}  // namespace
}  // namespace attend::train
