#include "attend/train/trainer.h"

#include "support/small_runs.h"
#include "support/throws.h"
#include "train/device.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

namespace attend::train {
namespace {

using testing::ElementsAre;

NamedTensors trained(const Recipe& recipe) {
  SmallRun run(recipe);
  run.trainer.run();
  return run.weights();
}

TEST(Trainer, SameSeedGivesBitwiseEqualRuns) {
  EXPECT_TRUE(equal_tensors(trained(small_recipe("senses")), trained(small_recipe("senses"))));
}

TEST(Trainer, DifferentSeedsGiveDifferentResults) {
  auto other = small_recipe("senses");
  other.training.seed = 2;
  EXPECT_FALSE(equal_tensors(trained(small_recipe("senses")), trained(other)));
}

TEST(Trainer, ReportsInIntervalsAndAtTheEnd) {
  Recorder recorder;
  SmallRun(small_recipe("senses")).trainer.run({.observers = {&recorder}});
  EXPECT_THAT(recorder.reported_steps(), ElementsAre(3, 4, 6, 8, 9, 10));
  EXPECT_THAT(recorder.evaluated, ElementsAre(4, 8, 10));
}

TEST(Trainer, EvaluationDoesNotChangeTraining) {
  for (const auto* task : {"senses", "balanced-brackets", "translation"}) {
    auto often = small_recipe(task);
    often.training.eval_every = 1;
    EXPECT_TRUE(equal_tensors(trained(small_recipe(task)), trained(often))) << task;
  }
}

TEST(Trainer, ReturnsTheResult) {
  auto recipe = small_recipe("senses");
  Recorder recorder;
  SmallRun run(recipe);
  const auto result = run.trainer.run({.observers = {&recorder}});
  const auto& state = result.state;
  EXPECT_EQ(result.stop_reason, StopReason::max_steps);
  EXPECT_EQ(state.step, 10);
  EXPECT_EQ(state.tokens, 10 * 8 * run.task->validation_batches(1).front().tokens.size(1));
  EXPECT_EQ(state.train_loss, recorder.progress.back().train_loss);
  EXPECT_EQ(state.last->loss, recorder.evaluations.back().loss);
  EXPECT_EQ(state.last->loss, evaluate(run.model, *run.task).loss);
  EXPECT_EQ(state.skipped_steps, 0);
}

TEST(Trainer, ClipsTheGradientAndReportsItsNormBeforeClipping) {
  auto recipe = small_recipe("senses", 1);
  const auto norm_of_gradient = [&](double clip, Recorder& recorder) {
    recipe.training.max_grad_norm = clip;
    SmallRun run(recipe);
    run.trainer.run({.observers = {&recorder}});
    double squares = 0.0;
    for (const auto& parameter : module_of(run.model).parameters()) {
      squares += parameter.grad().to(torch::kDouble).square().sum().item<double>();
    }
    return std::sqrt(squares);
  };
  Recorder free;
  Recorder clipped;
  const double norm = norm_of_gradient(0.0, free);
  EXPECT_GT(norm, 0.1);
  EXPECT_NEAR(norm, free.progress.back().grad_norm, 1e-5 * norm);
  EXPECT_NEAR(norm_of_gradient(0.01, clipped), 0.01, 1e-6);
  EXPECT_EQ(clipped.progress.back().grad_norm, free.progress.back().grad_norm);
}

/// A weight of shape (1, 2) that is registered twice. Its gradient is always [[12, 16]].
struct Tied : Objective {
  Tied() {
    tied.register_module("first", linear);
    tied.register_module("again", linear);
  }
  torch::nn::Module& module() override { return tied; }
  TrainingBatch training_batch(int64_t size, Sampler& /*sampler*/) override {
    return {.num_targets = 1, .num_tokens = size, .loss = [this] { return loss(); }};
  }
  virtual TrainingLoss loss() {
    return {.sum = (linear->weight * torch::tensor({12.0F, 16.0F})).sum()};
  }
  Evaluation evaluate(const EvaluationOptions& /*options*/) override {
    return {.loss = 1.0, .num_targets = 1};
  }

  torch::nn::Linear linear{torch::nn::LinearOptions(2, 1).bias(false)};
  torch::nn::Module tied;
};

TEST(Trainer, ClipsTheGradientOfATiedWeightOnce) {
  const auto objective = std::make_shared<Tied>();
  Recorder recorder;
  const TrainingConfig config{
      .max_steps = 1, .warmup_steps = 0, .max_grad_norm = 1.0, .device = "cpu"};
  Trainer(objective, config).run({.observers = {&recorder}});
  EXPECT_NEAR(recorder.progress.back().grad_norm, 20.0, 1e-4);  // sqrt(12^2 + 16^2)
  const auto gradient = objective->linear->weight.grad();
  EXPECT_TRUE(torch::allclose(gradient, torch::tensor({{0.6F, 0.8F}}), 1e-5)) << gradient;
}

/// Throws in `TrainingBatch::loss`.
struct Throwing : Tied {
  TrainingLoss loss() override { throw std::runtime_error("no loss"); }
};

TEST(Trainer, ExceptionsDoNotCountTheStep) {
  const NumThreadsGuard available(2);
  for (const int64_t threads : {0, 1}) {  // 0: thrown while the number of threads is measured
    Trainer trainer(std::make_shared<Throwing>(),
                    {.max_steps = 1, .warmup_steps = 0, .threads = threads, .device = "cpu"});
    EXPECT_THROW(trainer.run(), std::runtime_error);
    EXPECT_EQ(trainer.state().step, 0);
  }
}

TEST(Trainer, ReportsTheTrainingAccuracy) {
  auto recipe = small_recipe("modular-arithmetic", 150);
  recipe.stack().dropout = 0.0;
  recipe.data.symbols = 3;  // nine sums
  recipe.training.lr = 1e-2;
  Recorder recorder;
  SmallRun(recipe).trainer.run({.observers = {&recorder}});
  EXPECT_LT(recorder.progress.front().accuracy.value(), 1.0);
  EXPECT_EQ(recorder.progress.back().accuracy, 1.0);
}

TEST(Trainer, SensesAreLearnedWithAttentionOnly) {
  auto recipe = find_task("senses").defaults;
  const auto with_attention = SmallRun(recipe).trainer.run().state;
  EXPECT_GE(*with_attention.last->accuracy(), 0.99);

  recipe.stack().num_layers = 0;
  const auto without = SmallRun(recipe).trainer.run().state;
  EXPECT_LE(*without.last->accuracy(), 0.5);
  EXPECT_GE(*without.last->accuracy(), 0.45) << "worse than guessing";
}

}  // namespace
}  // namespace attend::train
