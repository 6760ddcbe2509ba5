#include "attend/input_error.h"
#include "attend/io/tokenizers.h"
#include "attend/train/training_run.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/subwords.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "train/checksum.h"
#include "train/device.h"
#include "train/run_files.h"
#include "train/run_record.h"

#include <gmock/gmock.h>
#include <torch/utils.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

class RecipeRunTest : public testing::Test {
 protected:
  /// Begins a run and stops it after `steps` steps.
  void train_for(const fs::path& directory, int64_t steps) const {
    auto run = make_training_run(directory, recipe_, {.mode = RunMode::begin});
    const auto stop = [steps, done = int64_t{0}]() mutable { return ++done == steps; };
    EXPECT_EQ(run.train({.stop_requested = stop}).stop_reason, StopReason::stop_requested);
  }

  static NamedTensors weights_of(const fs::path& directory) {
    auto run = RunDirectory::open(directory).load();
    NamedTensors weights;
    for (const auto& parameter : module_of(run.model).named_parameters()) {
      weights.emplace(parameter.key(), parameter.value().detach());
    }
    return weights;
  }

  TemporaryDirectory directory_;
  Recipe recipe_ = small_recipe("copy");
};

TEST_F(RecipeRunTest, CanBeLoaded) {
  Recorder recorder;
  auto run = make_training_run(directory_ / "run", recipe_, {.mode = RunMode::begin});
  const auto result = run.train({.observers = {&recorder}});
  run.finish(result);
  EXPECT_EQ(recorder.evaluated.back(), 10);
  auto loaded = RunDirectory::open(directory_ / "run").load();
  EXPECT_EQ(evaluate(loaded.model, *loaded.make_task()).loss, result.state.best->loss);
  EXPECT_TRUE(RunDirectory::open(directory_ / "run").is_finished(result.state, recipe_.training));
  EXPECT_EQ(RunDirectory::open(directory_ / "run").summary()->threads, 1);
}

TEST_F(RecipeRunTest, ResumedEqualsUninterrupted) {
  auto whole = make_training_run(directory_ / "whole", recipe_, {.mode = RunMode::begin});
  whole.finish(whole.train());
  train_for(directory_ / "run", 7);
  auto resumed = make_training_run(directory_ / "run", recipe_, {.mode = RunMode::resume});
  EXPECT_EQ(resumed.state().step, 7);
  resumed.finish(resumed.train());
  EXPECT_TRUE(equal_tensors(weights_of(directory_ / "run"), weights_of(directory_ / "whole")));
}

TEST_F(RecipeRunTest, BeginOrResumeContinuesAnExistingRun) {
  const auto step = [&] { return make_training_run(directory_ / "run", recipe_).state().step; };
  EXPECT_EQ(step(), 0);
  EXPECT_EQ(step(), 0) << "without a checkpoint, a run resumes from the start";
  train_for(directory_ / "stopped", 7);
  EXPECT_EQ(make_training_run(directory_ / "stopped", recipe_).state().step, 7);
}

TEST_F(RecipeRunTest, CanBeMoved) {
  auto first = std::make_unique<TrainingRun>(
      make_training_run(directory_ / "run", recipe_, {.mode = RunMode::begin}));
  auto moved = std::move(*first);
  first.reset();
  moved.finish(moved.train());
  EXPECT_TRUE(fs::exists(directory_ / "run" / RunFiles::summary));
}

TEST_F(RecipeRunTest, ReportsSkippedDamagedCheckpoints) {
  recipe_.training.checkpoint_every = 2;
  train_for(directory_ / "run", 4);
  replace_file(directory_ / "run" / "checkpoint" / "step-000000004" / "trainer_state.json", "{}");
  const auto resumed = make_training_run(directory_ / "run", recipe_, {.mode = RunMode::resume});
  EXPECT_EQ(resumed.state().step, 2);
  EXPECT_THAT(resumed.damaged(), testing::ElementsAre(testing::HasSubstr("trainer_state.json")));
}

TEST_F(RecipeRunTest, BeginOrResumeAndResumeOpenAFinishedRun) {
  for (const auto& [mode, finished] :
       {std::pair(RunMode::begin_or_resume, false), std::pair(RunMode::begin_or_resume, true),
        std::pair(RunMode::resume, true)}) {
    auto run = make_training_run(directory_ / "run", recipe_, {.mode = mode});
    EXPECT_EQ(run.is_finished(), finished);
    const auto result = run.train();
    run.finish(result);
    EXPECT_EQ(result.stop_reason, StopReason::max_steps);
    auto loaded = RunDirectory::open(directory_ / "run").load();
    EXPECT_EQ(evaluate(run.setup().model, *run.setup().task).loss,
              evaluate(loaded.model, *loaded.make_task()).loss);
  }
  recipe_.training.max_steps = 9;
  EXPECT_THAT([&] { make_training_run(directory_ / "run", recipe_, {.mode = RunMode::resume}); },
              throws<InputError>("already trained for 10/9 steps; pass a larger max_steps"));
}

TEST_F(RecipeRunTest, FinishKeepsTheRandomNumberGenerator) {
  auto run = make_training_run(directory_ / "run", recipe_, {.mode = RunMode::begin});
  const auto result = run.train();
  torch::manual_seed(123);
  const auto expected = torch::rand({3});
  torch::manual_seed(123);
  run.finish(result);
  EXPECT_TRUE(torch::rand({3}).equal(expected));
}

/// Making the task may take minutes, since it may train a subword tokenizer on a large text.
TEST_F(RecipeRunTest, BeginChecksTheDirectoryBeforeTheTaskIsMade) {
  train_for(directory_ / "run", 2);
  fs::create_directory(directory_ / "mine");
  replace_file(directory_ / "mine" / "notes.txt", "mine");
  recipe_ = small_recipe("text");
  recipe_.text = {(directory_ / "missing.txt").string()};
  const auto beginning = [&](const char* name, bool overwrite) {
    return [this, name, overwrite] {
      make_training_run(directory_ / name, recipe_,
                        {.mode = overwrite ? RunMode::overwrite : RunMode::begin});
    };
  };
  EXPECT_THAT(beginning("run", false), throws<InputError>("exists and is not empty"));
  EXPECT_THAT(beginning("mine", true),
              throws<InputError>("cannot be overwritten: not a run directory"));
  EXPECT_THAT(beginning("run", true), throws<InputError>("missing.txt: no such file"));
  const RunLock lock(directory_ / "run");
  EXPECT_THAT(beginning("run", true), throws<InputError>("is writing to this run"));
}

TEST_F(RecipeRunTest, UsesTheTaskOfTheTaskMaker) {
  const std::shared_ptr<const Task> task = make_task(recipe_);
  int calls = 0;
  const TaskMaker maker = [&](const Recipe&, const std::shared_ptr<const Tokenizer>& tokenizer) {
    ++calls;
    EXPECT_EQ(tokenizer != nullptr, calls == 2);  // a run that is resumed has a tokenizer
    return task;
  };
  EXPECT_EQ(
      make_training_run(directory_ / "run", recipe_, {.task_maker = maker}).setup().task.get(),
      task.get());
  EXPECT_EQ(
      make_training_run(directory_ / "run", recipe_, {.task_maker = maker}).setup().task.get(),
      task.get());
  EXPECT_EQ(calls, 2);
  const auto other = [task = std::shared_ptr<const Task>(make_task(small_recipe("addition")))](
                         const Recipe&, const auto&) { return task; };
  EXPECT_THAT(
      [&] {
        make_training_run(directory_ / "run", recipe_,
                          {.mode = RunMode::resume, .task_maker = other});
      },
      throws_naming<InputError>("tokenizer"));
}

using SubwordRunTest = SubwordTest;

/// Replaces the tokenizer in the run directory by another tokenizer, and checks that the run uses
/// the other tokenizer. A tokenizer that is trained on the text again would be different.
TEST_F(SubwordRunTest, SubwordsAreNotTrainedAgain) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the fox and the hen sat by the river " + std::to_string(i);
  replace_file(directory / "text", text);
  auto recipe = small_recipe("text", 2);
  recipe.text = {(directory / "text").string()};
  recipe.max_seq_len() = 16;
  recipe.data.tokenizer = TokenizerKind::subword;
  recipe.data.vocab_size = 300;
  {
    auto run = make_training_run(directory / "run", recipe, {.mode = RunMode::begin});
    run.finish(run.train());
  }
  const auto other =
      make_tokenizer(TokenizerKind::subword, text + " another text, other words", 300);
  auto record = read_record(directory / "run" / RunFiles::data);
  for (const auto& [name, content] : other->files()) {
    ASSERT_EQ(name == kTokenizerFile, read_bytes(directory / "run" / name) == content);
    replace_file(directory / "run" / name, content);
    record.files.at(name) = checksum_text(crc32c(content));
  }
  replace_file(directory / "run" / RunFiles::data, to_json(record));
  const auto run = RunDirectory::open(directory / "run").load();
  EXPECT_EQ(run.make_task()->tokenizer().files(), other->files());
  recipe.training.max_steps = 4;
  const auto resumed = make_training_run(directory / "run", recipe, {.mode = RunMode::resume});
  EXPECT_EQ(resumed.setup().task->tokenizer().files(), other->files());
  replace_file(directory / "text", text + "!");
  EXPECT_THAT([&] { run.make_task(); }, throws<InputError>("changed since training"));
}

TEST_F(RecipeRunTest, ThreadsAreChangedOnlyDuringTraining) {
  const NumThreadsGuard available(2);
  recipe_.training.threads = 3;
  auto run = make_training_run(directory_ / "run", recipe_, {.mode = RunMode::begin});
  EXPECT_EQ(torch::get_num_threads(), 2);
  int during = 0;
  const auto result =
      run.train({.stop_requested = [&] { return (during = torch::get_num_threads()) == 0; }});
  EXPECT_EQ(during, 3);
  run.finish(result);
  EXPECT_EQ(torch::get_num_threads(), 2);
}

TEST_F(RecipeRunTest, ModelThatCannotBeMadeIsAnInputError) {
  const auto beginning = [&](auto change) {
    return [&, change] {
      auto recipe = recipe_;
      change(recipe.stack());
      make_training_run(directory_ / "run", recipe, {.mode = RunMode::begin});
    };
  };
  EXPECT_THAT(beginning([](auto& stack) { stack.embed_dim = 10, stack.num_heads = 3; }),
              throws<InputError>("embed_dim (10) must be divisible by num_heads (3)"));
  EXPECT_THAT(beginning([](auto& stack) { stack.num_heads = 4, stack.num_kv_heads = 3; }),
              throws<InputError>("num_heads (4) must be divisible by num_kv_heads (3)"));
  EXPECT_THAT(beginning([](auto& stack) { stack.relative_bias.num_buckets = 5; }),
              throws<InputError>("relative_attention_* is set but has no effect"));
  EXPECT_FALSE(fs::exists(directory_ / "run"));
}

TEST_F(RecipeRunTest, LocksItsDirectory) {
  const auto run = make_training_run(directory_ / "run", recipe_, {.mode = RunMode::begin});
  EXPECT_THAT([&] { make_training_run(directory_ / "run", recipe_, {.mode = RunMode::overwrite}); },
              throws<InputError>("run"));
}

}  // namespace
}  // namespace attend::train
