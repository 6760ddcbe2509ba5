#include "attend/input_error.h"
#include "attend/train/checkpoint_store.h"
#include "attend/train/trainer.h"
#include "support/seed.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <optional>

namespace attend::train {
namespace {

constexpr int64_t kSteps = 12;

/// Each test runs for several tasks. The tasks cover all kinds of models. Some tasks generate their
/// examples, and others have a fixed list of examples. Training has dropout, gradient accumulation,
/// and an epoch that ends within a step.
class ResumedTraining : public testing::TestWithParam<const char*> {
 protected:
  ResumedTraining() {
    recipe_.training.gradient_accumulation_steps = 3;
    recipe_.training.batch_size = 5;
    recipe_.training.optimizer = OptimizerKind::muon;
  }

  /// Trains a new model from `start` to step `until` and returns the checkpoint.
  Checkpoint run(const std::optional<Checkpoint>& start, int64_t until) const {
    SmallRun run(recipe_);
    if (start) run.trainer.restore(*start);
    int64_t step = start ? start->trainer_state.step : 0;
    const auto stop = [&] { return ++step == until; };
    EXPECT_EQ(run.trainer.run({.stop_requested = stop}).stop_reason,
              until == kSteps ? StopReason::max_steps : StopReason::stop_requested);
    return run.trainer.checkpoint();
  }

  Recipe recipe_ = small_recipe(GetParam(), kSteps);
};

TEST_P(ResumedTraining, EqualsUninterruptedTrainingBitwise) {
  seed_afresh();
  const auto stop = draw(1, kSteps - 1);
  const auto second_stop = draw(stop + 1, kSteps);
  const auto whole = run({}, kSteps);
  for (const int64_t k : {stop, second_stop}) {
    if (k == kSteps) continue;
    const auto resumed = run(run({}, k), kSteps);
    EXPECT_TRUE(equal_tensors(resumed.weights, whole.weights)) << "stopped after step " << k;
    EXPECT_TRUE(equal_tensors(resumed.state, whole.state)) << "stopped after step " << k;
    EXPECT_EQ(resumed.trainer_state.tokens, whole.trainer_state.tokens);
    EXPECT_EQ(resumed.trainer_state.best->loss, whole.trainer_state.best->loss);
    EXPECT_EQ(resumed.trainer_state.best_step, whole.trainer_state.best_step);
    EXPECT_EQ(resumed.trainer_state.train_loss, whole.trainer_state.train_loss);
  }
}

TEST(ResumedTrainer, ReplacesABestEvaluationWithoutTheMetric) {
  auto recipe = small_recipe("balanced-brackets", 4);
  SmallRun first(recipe);
  first.trainer.run({});
  auto checkpoint = first.trainer.checkpoint();
  checkpoint.trainer_state.best->f1.reset();
  recipe.training.max_steps = 8;
  recipe.training.best_metric = BestMetric::f1;
  SmallRun second(recipe);
  second.trainer.restore(checkpoint);
  const auto state = second.trainer.run({}).state;
  EXPECT_EQ(state.best_step, 8);
  EXPECT_TRUE(state.best->f1.has_value());
}

TEST_P(ResumedTraining, MayBeInterruptedAfterEveryStep) {
  const auto whole = run({}, kSteps);
  const TemporaryDirectory directory;
  CheckpointStore store(directory / "checkpoint");
  store.save(run({}, 1));
  for (int64_t step = 2; step <= kSteps; ++step) {
    store.save(run(store.load_latest().value(), step));
  }
  EXPECT_TRUE(equal_tensors(store.load_latest()->weights, whole.weights));
}

TEST_P(ResumedTraining, NeedsEveryPartOfTheCheckpoint) {
  const auto whole = run({}, kSteps);
  const auto stopped = run({}, 5);
  const auto fresh = SmallRun(recipe_).trainer.checkpoint();
  for (const std::string part : {"optimizer.", "sampler.", "random.", ""}) {
    // Replaces the tensors of the state whose names begin with `part` by the tensors of a new run.
    // An empty `part` replaces all of them.
    auto without = stopped;
    for (const auto& [name, tensor] : fresh.state) {
      if (name.starts_with(part)) without.state.at(name) = tensor;
    }
    EXPECT_FALSE(equal_tensors(run(without, kSteps).weights, whole.weights)) << part;
  }
  auto without = stopped;
  without.weights = fresh.weights;
  EXPECT_FALSE(equal_tensors(run(without, kSteps).weights, whole.weights));
}

TEST_P(ResumedTraining, ErrorNamesMissingState) {
  const auto stopped = run({}, 2);
  const auto restore_without = [&](const std::string& part) {
    auto without = stopped;
    std::erase_if(without.state, [&](const auto& entry) { return entry.first.starts_with(part); });
    SmallRun(recipe_).trainer.restore(without);
  };
  EXPECT_THAT([&] { restore_without("optimizer."); }, throws<InputError>("/momentum"));
  EXPECT_THAT([&] { restore_without("sampler."); },
              throws<InputError>("the sampler state has no valid 'generator'"));
  auto other = recipe_;
  other.stack().num_layers = 2;
  EXPECT_THAT([&] { SmallRun(other).trainer.restore(stopped); },
              throws<InputError>("does not match the model"));
}

TEST(TrainerCheckpoint, IsNotChangedByFurtherTraining) {
  SmallRun run(small_recipe("senses", kSteps));
  run.trainer.run({.stop_requested = [steps = 0]() mutable { return ++steps == 5; }});
  const auto checkpoint = run.trainer.checkpoint();
  const auto copies = [](const NamedTensors& tensors) {
    NamedTensors all;
    for (const auto& [name, tensor] : tensors) all.emplace(name, tensor.clone());
    return all;
  };
  const auto weights = copies(checkpoint.weights);
  const auto state = copies(checkpoint.state);
  const auto best = copies(checkpoint.best);
  run.trainer.run();
  EXPECT_FALSE(equal_tensors(run.weights(), weights)) << "training must change the weights";
  EXPECT_TRUE(equal_tensors(checkpoint.weights, weights));
  EXPECT_TRUE(equal_tensors(checkpoint.state, state));
  EXPECT_TRUE(equal_tensors(checkpoint.best, best));
}

/// The sink may contain best weights from steps after the checkpoint. They must be replaced.
TEST(TrainerCheckpoint, BestWeightsAreSavedFirstAfterResuming) {
  auto recipe = small_recipe("senses", kSteps);
  SmallRun first(recipe);
  first.trainer.run({.stop_requested = [steps = 0]() mutable { return ++steps == 8; }});
  const auto checkpoint = first.trainer.checkpoint();
  ASSERT_FALSE(checkpoint.best.empty());
  recipe.training.lr = 1e-9;
  SmallRun resumed(recipe);
  resumed.trainer.restore(checkpoint);
  Recorder recorder;
  resumed.trainer.run({.checkpoint_sink = &recorder});
  EXPECT_TRUE(equal_tensors(recorder.best.front(), checkpoint.best));
}

INSTANTIATE_TEST_SUITE_P(Tasks, ResumedTraining,
                         testing::Values("modular-arithmetic", "senses", "copy",
                                         "balanced-brackets", "translation"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace attend::train
