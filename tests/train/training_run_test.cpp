#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

class TrainingRunTest : public testing::Test {
 protected:
  /// Begins and is stopped after so many steps.
  void train_for(const fs::path& directory, int64_t steps) const {
    auto run = TrainingRun::begin(directory, recipe_);
    const auto stop = [steps, done = int64_t{0}]() mutable { return ++done == steps; };
    EXPECT_EQ(run.train({}, stop).stop_reason, StopReason::stop_requested);
  }

  static NamedTensors weights_of(const fs::path& directory) {
    auto run = load_run(directory);
    NamedTensors weights;
    for (const auto& parameter : module_of(run.model).named_parameters()) {
      weights.emplace(parameter.key(), parameter.value().detach());
    }
    return weights;
  }

  TemporaryDirectory directory_;
  Recipe recipe_ = small_recipe("copy");
};

TEST_F(TrainingRunTest, LeavesARunThatCanBeUsed) {
  Recorder recorder;
  auto run = TrainingRun::begin(directory_ / "run", recipe_);
  const auto outcome = run.train({&recorder});
  run.finish(outcome);
  EXPECT_EQ(recorder.evaluated.back(), 10);
  auto loaded = load_run(directory_ / "run");
  EXPECT_EQ(evaluate(loaded.model, *task_of(loaded)).loss, outcome.state.best->loss);
  EXPECT_TRUE(is_finished(directory_ / "run", outcome.state));
}

TEST_F(TrainingRunTest, ResumedEndsAsOneThatWasNotInterrupted) {
  auto whole = TrainingRun::begin(directory_ / "whole", recipe_);
  whole.finish(whole.train());
  train_for(directory_ / "run", 7);
  auto resumed = TrainingRun::resume(directory_ / "run", recipe_);
  EXPECT_EQ(resumed.resumed_state().step, 7);
  resumed.finish(resumed.train());
  EXPECT_TRUE(equal_tensors(weights_of(directory_ / "run"), weights_of(directory_ / "whole")));
}

TEST_F(TrainingRunTest, TellsWhichCheckpointsItPassedOver) {
  recipe_.training.checkpoint_every = 2;
  train_for(directory_ / "run", 4);
  replace_file(directory_ / "run" / "checkpoint" / "step-000000004" / "standing.json", "{}");
  const auto resumed = TrainingRun::resume(directory_ / "run", recipe_);
  EXPECT_EQ(resumed.resumed_state().step, 2);
  EXPECT_THAT(resumed.damaged(), testing::ElementsAre(testing::HasSubstr("standing.json")));
}

TEST_F(TrainingRunTest, ThatIsDoneSaysWhatToChange) {
  {
    auto run = TrainingRun::begin(directory_ / "run", recipe_);
    run.finish(run.train());
  }
  EXPECT_THAT([&] { TrainingRun::resume(directory_ / "run", recipe_); },
              throws<InputError>("has done 10 steps of 10: raise steps to go on"));
}

TEST_F(TrainingRunTest, KeepsOthersFromItsDirectory) {
  const auto run = TrainingRun::begin(directory_ / "run", recipe_);
  EXPECT_THAT([&] { TrainingRun::begin(directory_ / "run", recipe_, true); },
              throws<InputError>("run"));
}

}  // namespace
}  // namespace attend::train
