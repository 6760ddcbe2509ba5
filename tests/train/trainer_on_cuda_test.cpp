// Tests training on a GPU; skipped without a CUDA device.
#include "attend/train/training_setup.h"
#include "support/small_runs.h"

#include <gmock/gmock.h>
#include <torch/cuda.h>

#include <string>
#include <tuple>
#include <utility>

namespace attend::train {
namespace {

struct TrainerOnCuda : testing::TestWithParam<const char*> {
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

INSTANTIATE_TEST_SUITE_P(, TrainerOnCuda,
                         testing::Values("copy", "senses", "balanced-brackets", "translation"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

/// A recipe whose losses are those of the CPU for some steps: without dropout, whose random numbers
/// differ.
Recipe recipe_for(const std::string& task, const std::string& device) {
  auto recipe = small_recipe(task, 10);
  recipe.stack().dropout = 0.0;
  recipe.training.device = device;
  recipe.training.log_every = 1;
  return recipe;
}

/// Model, task and trainer on the device of the recipe.
struct DeviceRun {
  explicit DeviceRun(const Recipe& recipe)
      : setup(make_training_setup(recipe)),
        trainer(std::make_shared<TaskObjective>(setup.model, setup.task, recipe.training),
                recipe.training) {}

  TrainingSetup setup;
  Trainer trainer;
};

TEST_P(TrainerOnCuda, LossesAndGradientNormsMatchTheCpu) {
  Recorder on_cpu;
  Recorder on_cuda;
  DeviceRun(recipe_for(GetParam(), "cpu")).trainer.run({.observers = {&on_cpu}});
  DeviceRun run(recipe_for(GetParam(), "cuda"));
  EXPECT_TRUE(module_of(run.setup.model).parameters().front().is_cuda());
  run.trainer.run({.observers = {&on_cuda}});
  ASSERT_EQ(on_cuda.progress.size(), on_cpu.progress.size());
  for (std::size_t i = 0; i < on_cpu.progress.size(); ++i) {
    const auto& [expected, found] = std::tie(on_cpu.progress[i], on_cuda.progress[i]);
    // Each step multiplies the rounding errors of the steps before it.
    const double tolerance = i < 3 ? 1e-4 : 2e-2;
    EXPECT_NEAR(found.train_loss, expected.train_loss, tolerance) << i;
    EXPECT_NEAR(found.grad_norm, expected.grad_norm, 10 * tolerance * expected.grad_norm) << i;
  }
  EXPECT_NEAR(on_cuda.evaluations.back().loss, on_cpu.evaluations.back().loss, 2e-2);
}

TEST_P(TrainerOnCuda, CheckpointsContinueOnTheOtherDevice) {
  for (const auto& [first, second] : {std::pair("cuda", "cpu"), std::pair("cpu", "cuda")}) {
    Recorder uninterrupted;
    DeviceRun(recipe_for(GetParam(), first)).trainer.run({.observers = {&uninterrupted}});
    DeviceRun stopped(recipe_for(GetParam(), first));
    stopped.trainer.run({.stop_requested = [&] { return true; }});
    const auto checkpoint = stopped.trainer.checkpoint();
    for (const auto& [name, tensor] : checkpoint.weights) EXPECT_TRUE(tensor.is_cpu()) << name;
    DeviceRun resumed(recipe_for(GetParam(), second));
    resumed.trainer.restore(checkpoint);
    Recorder rest;
    resumed.trainer.run({.observers = {&rest}});
    ASSERT_EQ(rest.progress.size() + 1, uninterrupted.progress.size());
    EXPECT_NEAR(rest.progress.back().train_loss, uninterrupted.progress.back().train_loss, 2e-2);
  }
}

TEST_P(TrainerOnCuda, Fp16IsCloseToFp32) {
  auto recipe = recipe_for(GetParam(), "cuda");
  Recorder exact;
  DeviceRun(recipe).trainer.run({.observers = {&exact}});
  recipe.training.precision = Precision::fp16;
  Recorder rounded;
  DeviceRun run(recipe);
  run.trainer.run({.observers = {&rounded}});
  EXPECT_NE(rounded.progress.front().train_loss, exact.progress.front().train_loss);
  EXPECT_NEAR(rounded.progress.front().train_loss, exact.progress.front().train_loss, 0.005);
  EXPECT_GT(rounded.progress.back().loss_scale.value(), 0.0);
  const auto checkpoint = run.trainer.checkpoint();
  for (const auto& [name, weight] : checkpoint.weights)
    EXPECT_EQ(weight.scalar_type(), torch::kFloat) << name;
  DeviceRun resumed(recipe);
  resumed.trainer.restore(checkpoint);
  EXPECT_TRUE(resumed.trainer.checkpoint()
                  .state.at("scaler.factor")
                  .equal(checkpoint.state.at("scaler.factor")));
}

}  // namespace
}  // namespace attend::train
