#include "attend/train/trainer.h"
#include "support/small_runs.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

namespace attend::train {
namespace {

TEST(TrainerPrecision, Bf16Trains) {
  for (const auto* task : {"senses", "translation"}) {
    auto recipe = small_recipe(task, 40);
    recipe.training.eval_every = 5;
    recipe.training.lr = 1e-2;
    SmallRun exact(recipe);
    exact.trainer.run();
    recipe.training.precision = Precision::bf16;
    SmallRun rounded(recipe);
    Recorder recorder;
    rounded.trainer.run({.observers = {&recorder}});
    EXPECT_FALSE(equal_tensors(rounded.weights(), exact.weights())) << task;
    EXPECT_LT(recorder.evaluations.back().loss, recorder.evaluations.front().loss) << task;
    for (const auto& [name, weight] : rounded.trainer.checkpoint().weights) {
      EXPECT_EQ(weight.scalar_type(), torch::kFloat) << name;
    }
    for (const auto& [name, tensor] : rounded.trainer.checkpoint().state) {
      EXPECT_NE(tensor.scalar_type(), torch::kBFloat16) << name;
    }
  }
}

TEST(TrainerPrecision, Bf16IsCloseToFp32) {
  for (const auto* task : {"senses", "balanced-brackets", "translation"}) {
    auto recipe = small_recipe(task, 1);
    recipe.stack().dropout = 0.0;
    const double exact = SmallRun(recipe).trainer.run().state.train_loss;
    recipe.training.precision = Precision::bf16;
    const double rounded = SmallRun(recipe).trainer.run().state.train_loss;
    EXPECT_NE(rounded, exact) << task;
    EXPECT_NEAR(rounded, exact, 0.02) << task;
  }
}

TEST(TrainerPrecision, EvaluationHasThePrecisionOfTheTraining) {
  auto recipe = small_recipe("senses", 4);
  recipe.training.precision = Precision::bf16;
  SmallRun run(recipe);
  const double loss = run.trainer.run().state.last->loss;
  EXPECT_EQ(evaluate(run.model, *run.task, Precision::bf16).loss, loss);
  const double exact = evaluate(run.model, *run.task).loss;
  EXPECT_NE(exact, loss);
  EXPECT_NEAR(exact, loss, 0.02);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(torch::kCPU));
}

TEST(TrainerPrecision, AutocastIsRestoredAfterARun) {
  auto recipe = small_recipe("senses", 2);
  recipe.training.precision = Precision::bf16;
  const auto dtype = at::autocast::get_autocast_dtype(torch::kCPU);
  for (const auto other : {torch::kBFloat16, torch::kHalf}) {
    at::autocast::set_autocast_dtype(torch::kCPU, other);
    SmallRun(recipe).trainer.run();
    EXPECT_FALSE(at::autocast::is_autocast_enabled(torch::kCPU));
    EXPECT_EQ(at::autocast::get_autocast_dtype(torch::kCPU), other);
  }
  at::autocast::set_autocast_dtype(torch::kCPU, dtype);
}

}  // namespace
}  // namespace attend::train
