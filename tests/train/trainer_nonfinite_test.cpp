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

/// Sets a weight to NaN, which makes every loss NaN.
void set_nan(const SmallRun& run) {
  const torch::NoGradGuard no_grad;
  first_weight(run).fill_(NAN);
}

/// A `stop_requested` that always returns false. It sets a weight to NaN after step `last`.
std::function<bool()> set_nan_after(const SmallRun& run, int64_t last) {
  return [&run, last, step = int64_t{0}]() mutable {
    if (++step == last) set_nan(run);
    return false;
  };
}

TEST(TrainerNonFinite, NonFiniteLossThrowsAndNamesStepAndLearningRate) {
  SmallRun run(small_recipe("senses"));
  set_nan(run);
  EXPECT_THAT([&] { run.trainer.run(); },
              testing::ThrowsMessage<std::runtime_error>(testing::ContainsRegex(
                  "non-finite loss or gradient at step 1: train_loss -?nan, grad_norm -?nan, "
                  "lr 0.0015, and the weights are not finite; latest checkpoint: none; "
                  "try a lower lr")));
}

TEST(TrainerNonFinite, NamesTheLatestCheckpoint) {
  auto recipe = small_recipe("senses");
  recipe.training.checkpoint_every = 3;
  SmallRun run(recipe);
  Recorder recorder;
  EXPECT_THAT(
      [&] {
        run.trainer.run({.checkpoint_sink = &recorder, .stop_requested = set_nan_after(run, 4)});
      },
      testing::ThrowsMessage<std::runtime_error>(testing::AllOf(
          testing::HasSubstr("at step 5"), testing::HasSubstr("checkpoint: latest/path"))));
  EXPECT_THAT(recorder.saved, testing::ElementsAre(3));
}

TEST(TrainerNonFinite, NonFiniteWeightsAreNotSaved) {
  auto recipe = small_recipe("senses");
  recipe.training.checkpoint_every = 1;
  SmallRun run(recipe);
  Recorder recorder;
  EXPECT_THROW(
      run.trainer.run({.checkpoint_sink = &recorder, .stop_requested = set_nan_after(run, 4)}),
      std::runtime_error);
  EXPECT_THAT(recorder.saved, testing::ElementsAre(1, 2, 3));
}

TEST(TrainerNonFinite, SkipDoesNotUpdateAndContinues) {
  auto recipe = small_recipe("senses");
  recipe.training.on_nonfinite = OnNonFinite::skip;
  recipe.training.log_every = 1;
  SmallRun run(recipe);
  Recorder recorder;
  int64_t step = 0;
  unsigned hook = 0;
  std::vector<NamedTensors> after;
  const auto nan_in_two_gradients = [&] {
    after.push_back(run.weights());
    if (++step == 4) {
      hook = first_weight(run).register_hook([](const torch::Tensor& grad) { return grad * NAN; });
    }
    if (step == 6) first_weight(run).remove_hook(hook);
    return false;
  };
  const auto result =
      run.trainer.run({.observers = {&recorder}, .stop_requested = nan_in_two_gradients});
  EXPECT_EQ(result.state.step, 10);
  EXPECT_EQ(result.state.skipped_steps, 2);
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

TEST(TrainerNonFinite, NonFiniteWeightsThrowDespiteSkip) {
  auto recipe = small_recipe("senses");
  recipe.training.on_nonfinite = OnNonFinite::skip;
  SmallRun run(recipe);
  set_nan(run);
  EXPECT_THAT([&] { run.trainer.run(); }, throws<std::runtime_error>("the weights are not finite"));
}

/// Sets a weight to NaN during the first evaluation only.
class NanEvaluation : public Observer {
 public:
  explicit NanEvaluation(const SmallRun& run) : run_(run) {}
  void on_progress(const Progress& progress) override {
    if (progress.step != 1) return;
    good_ = first_weight(run_).detach().clone();
    set_nan(run_);
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

TEST(TrainerNonFinite, NonFiniteLossIsNeverTheBest) {
  auto recipe = small_recipe("senses", 2);
  recipe.training.eval_every = 1;
  SmallRun run(recipe);
  NanEvaluation observer(run);
  const auto state = run.trainer.run({.observers = {&observer}}).state;
  EXPECT_EQ(state.best_step, 2);
  EXPECT_TRUE(std::isfinite(state.best->loss));
}

}  // namespace
}  // namespace attend::train
