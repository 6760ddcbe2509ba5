#include "attend/train/trainer.h"
#include "support/small_runs.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

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

/// What a trainer asks after each step whether it is to stop: it is not, but a step spoils the
/// weights.
std::function<bool()> spoil_after(const SmallRun& run, int64_t last) {
  return [&run, last, step = int64_t{0}]() mutable {
    if (++step == last) spoil(run);
    return false;
  };
}

TEST(TrainerNonFinite, ALossThatIsNotFiniteStopsAndNamesStepAndLearningRate) {
  SmallRun run(small_recipe("senses"));
  spoil(run);
  EXPECT_THAT([&] { run.trainer.run(); },
              throws<std::runtime_error>("nan at step 1, learning rate 0.0015: the weights are "
                                         "not finite themselves; the last good checkpoint: none "
                                         "yet; try a lower lr"));
}

TEST(TrainerNonFinite, NamesTheLatestCheckpoint) {
  auto recipe = small_recipe("senses");
  recipe.training.checkpoint_every = 3;
  SmallRun run(recipe);
  Recorder recorder;
  EXPECT_THAT(
      [&] {
        run.trainer.run({.checkpoint_sink = &recorder, .stop_requested = spoil_after(run, 4)});
      },
      testing::ThrowsMessage<std::runtime_error>(testing::AllOf(
          testing::HasSubstr("at step 5"), testing::HasSubstr("checkpoint: the latest one"))));
  EXPECT_THAT(recorder.kept, testing::ElementsAre(3));
}

TEST(TrainerNonFinite, SpoiltWeightsDoNotPushOutTheLastGoodOnes) {
  auto recipe = small_recipe("senses");
  recipe.training.checkpoint_every = 1;
  SmallRun run(recipe);
  Recorder recorder;
  EXPECT_THROW(
      run.trainer.run({.checkpoint_sink = &recorder, .stop_requested = spoil_after(run, 4)}),
      std::runtime_error);
  EXPECT_THAT(recorder.kept, testing::ElementsAre(1, 2, 3));
}

TEST(TrainerNonFinite, SkippingLeavesTheStepOutAndGoesOn) {
  auto recipe = small_recipe("senses");
  recipe.training.on_nonfinite = OnNonFinite::skip;
  recipe.training.log_every = 1;
  SmallRun run(recipe);
  Recorder recorder;
  int64_t step = 0;
  unsigned hook = 0;
  std::vector<NamedTensors> after;
  const auto spoil_two_gradients = [&] {
    after.push_back(run.weights());
    if (++step == 4) {
      hook = first_weight(run).register_hook([](const torch::Tensor& grad) { return grad * NAN; });
    }
    if (step == 6) first_weight(run).remove_hook(hook);
    return false;
  };
  const auto outcome =
      run.trainer.run({.observers = {&recorder}, .stop_requested = spoil_two_gradients});
  EXPECT_EQ(outcome.state.step, 10);
  EXPECT_EQ(outcome.state.skipped_steps, 2);
  EXPECT_EQ(recorder.progress.at(3).skipped_steps, 0);
  EXPECT_EQ(recorder.progress.at(4).skipped_steps, 1);
  EXPECT_EQ(recorder.progress.back().skipped_steps, 2);
  const auto unchanged = [&](std::size_t one, std::size_t other) {
    return equal_tensors(after.at(one - 1), after.at(other - 1));
  };
  EXPECT_FALSE(unchanged(3, 4));
  EXPECT_TRUE(unchanged(4, 5));
  EXPECT_TRUE(unchanged(4, 6));
  EXPECT_FALSE(unchanged(6, 7));
}

TEST(TrainerNonFinite, SpoiltWeightsEndTheRunThoughStepsMayBeSkipped) {
  auto recipe = small_recipe("senses");
  recipe.training.on_nonfinite = OnNonFinite::skip;
  SmallRun run(recipe);
  spoil(run);
  EXPECT_THAT([&] { run.trainer.run(); },
              throws<std::runtime_error>("the weights are not finite themselves"));
}

/// Spoils the weights for the first evaluation alone.
class SpoiltEvaluation : public Observer {
 public:
  explicit SpoiltEvaluation(const SmallRun& run) : run_(run) {}
  void on_progress(const Progress& progress) override {
    if (progress.step != 1) return;
    good_ = first_weight(run_).detach().clone();
    spoil(run_);
  }
  void on_evaluation(int64_t step, const Evaluation& evaluation) override {
    if (step != 1) return;
    EXPECT_TRUE(std::isnan(evaluation.loss));
    const torch::NoGradGuard no_grad;
    first_weight(run_).copy_(good_);
  }

 private:
  const SmallRun& run_;
  torch::Tensor good_;
};

TEST(TrainerNonFinite, ALossThatIsNotFiniteIsNeverTheBest) {
  auto recipe = small_recipe("senses", 2);
  recipe.training.eval_every = 1;
  SmallRun run(recipe);
  SpoiltEvaluation observer(run);
  const auto standing = run.trainer.run({.observers = {&observer}}).state;
  EXPECT_EQ(standing.best_step, 2);
  EXPECT_TRUE(std::isfinite(standing.best->loss));
}

}  // namespace
}  // namespace attend::train
