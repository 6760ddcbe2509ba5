#include "attend/train/loss.h"
#include "attend/train/task_objective.h"
#include "attend/train/trainer.h"
#include "support/close.h"
#include "support/small_runs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attend::train {
namespace {

/// Returns a recipe for one step of the task `copy`, without dropout and gradient clipping. The
/// answers of this task have different lengths, so batches have different numbers of targets.
Recipe without_noise(int64_t batch, int64_t accumulate) {
  auto recipe = small_recipe("copy", 1);
  recipe.stack().dropout = 0.0;
  recipe.training.batch_size = batch;
  recipe.training.gradient_accumulation_steps = accumulate;
  recipe.training.max_grad_norm = 0.0;
  return recipe;
}

TEST(TrainerAccumulation, ThreeBatchesOfFourEqualOneOfTwelve) {
  Recorder one;
  Recorder three;
  SmallRun at_once(without_noise(12, 1));
  const auto state = at_once.trainer.run({.observers = {&one}}).state;
  SmallRun in_parts(without_noise(4, 3));
  EXPECT_EQ(in_parts.trainer.run({.observers = {&three}}).state.tokens, state.tokens);
  EXPECT_NEAR(three.progress.back().train_loss, one.progress.back().train_loss, 1e-6);
  const auto expected = module_of(at_once.model).named_parameters();
  for (const auto& parameter : module_of(in_parts.model).named_parameters()) {
    EXPECT_TRUE(close(parameter.value().grad(), expected[parameter.key()].grad(), 1e-6))
        << parameter.key();
  }
}

TEST(TrainerAccumulation, LossIsTheMeanOverAllTargets) {
  const auto recipe = without_noise(4, 3);
  SmallRun run(recipe);
  Sampler sampler(static_cast<uint64_t>(recipe.training.seed));
  double sum = 0.0;
  double means = 0.0;
  int64_t targets = 0;
  for (int i = 0; i < 3; ++i) {
    const auto batch = run.task->training_batch(4, sampler);
    const auto loss = summed_loss(logits_of(run.model, batch), batch.targets).item<double>();
    sum += loss;
    targets += num_targets(batch);
    means += loss / static_cast<double>(num_targets(batch)) / 3;
  }
  const double mean = sum / static_cast<double>(targets);
  const double found = run.trainer.run().state.train_loss;
  EXPECT_NEAR(found, mean, 1e-6);
  EXPECT_GT(std::abs(found - means), 1e-5) << "the batches have the same number of targets";
}

TEST(TrainerAccumulation, AuxLossAndLabelSmoothingHaveAnEffect) {
  auto recipe = without_noise(4, 3);
  recipe.stack().num_experts = 4;
  const auto trained = [&] {
    SmallRun run(recipe);
    run.trainer.run();
    return run.weights();
  };
  const auto plain = trained();
  recipe.training.router_aux_loss_coef = 0.5;
  EXPECT_FALSE(equal_tensors(trained(), plain));
  recipe.training.router_aux_loss_coef = 0.01;
  EXPECT_TRUE(equal_tensors(trained(), plain));
  recipe.training.label_smoothing = 0.1;
  EXPECT_FALSE(equal_tensors(trained(), plain));
}

}  // namespace
}  // namespace attend::train
