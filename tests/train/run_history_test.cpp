#include "train/run_history.h"

#include "attend/io/safetensors.h"
#include "attend/train/embedding_files.h"
#include "attend/train/training_run.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "train/json_lines.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <map>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class RunHistoryTest : public testing::Test {
 protected:
  TrainingRun begin(const std::string& name) const {
    return make_training_run(directory_ / name, recipe_, {.mode = RunMode::begin});
  }

  std::vector<nlohmann::json> samples(const std::string& name) const {
    return read_json_lines(directory_ / name / RunFiles::samples, /*is_finished=*/true);
  }

  std::vector<int64_t> sample_steps(const std::string& name) const {
    std::vector<int64_t> steps;
    for (const auto& line : samples(name)) steps.push_back(line.at("step"));
    return steps;
  }

  std::vector<int64_t> snapshot_steps(const std::string& name) const {
    std::vector<int64_t> steps;
    for (const auto& snapshot : embedding_snapshots(directory_ / name))
      steps.push_back(snapshot.step);
    return steps;
  }

  /// Returns the files of the history, by name.
  std::map<std::string, std::string> files(const std::string& name) const {
    std::map<std::string, std::string> content{
        {RunFiles::samples, read_bytes(directory_ / name / RunFiles::samples)}};
    for (const auto& entry : fs::directory_iterator(directory_ / name / RunFiles::embeddings))
      content[entry.path().filename()] = read_bytes(entry.path());
    return content;
  }

  TemporaryDirectory directory_;
  Recipe recipe_ = small_recipe("copy");
};

TEST_F(RunHistoryTest, RecordsEachEvaluationAndStep0) {
  auto run = begin("run");
  const auto initial = token_embedding_weight(run.setup().model).detach().clone();
  run.train();
  EXPECT_THAT(sample_steps("run"), ElementsAre(0, 4, 8, 10));
  EXPECT_THAT(snapshot_steps("run"), ElementsAre(0, 4, 8, 10));
  const auto snapshots = embedding_snapshots(directory_ / "run");
  const auto embeddings = [&](std::size_t i) {
    return load_safetensors(snapshots.at(i).path).tensors.at("embeddings");
  };
  EXPECT_TRUE(embeddings(0).equal(initial));
  EXPECT_TRUE(embeddings(3).equal(token_embedding_weight(run.setup().model)));
  const auto tokenizer = RunDirectory::open(directory_ / "run").load(Weights::best).tokenizer;
  for (const auto& line : samples("run")) {
    EXPECT_EQ(line.at("samples").size(), 5U);
    for (const auto& sample : line.at("samples")) {
      EXPECT_EQ(sample.at("correct"), sample.at("output") == sample.at("expected"));
      for (const auto* name : {"input", "output"}) {
        const auto tokens = sample.at(name + std::string("_tokens")).get<std::vector<int64_t>>();
        EXPECT_EQ(tokenizer->decode(tokens), sample.at(name).get<std::string>());
      }
    }
  }
}

TEST_F(RunHistoryTest, ResumedRunHasTheSameFiles) {
  begin("whole").train();
  for (const int64_t steps : {1, 4, 5, 8}) {
    const auto name = std::to_string(steps);
    {
      auto run = begin(name);
      run.train(
          {.stop_requested = [steps, done = int64_t{0}]() mutable { return ++done == steps; }});
    }
    // A killed process may have recorded an evaluation after its last checkpoint.
    const auto path = directory_ / name;
    replace_file(path / RunFiles::samples, read_bytes(path / RunFiles::samples) +
                                               "{\"step\":9,\"samples\":[]}\n{\"step\":10,\"sam");
    replace_file(path / RunFiles::embeddings / "step-000000009.safetensors", "?");
    replace_file(path / RunFiles::embeddings / "step-000000010.safetensors.7.tmp", "?");
    make_training_run(path, recipe_, {.mode = RunMode::resume}).train();
    EXPECT_EQ(files(name), files("whole")) << steps;
  }
}

TEST_F(RunHistoryTest, AnEvaluationThatWasStoppedIsRecordedOnce) {
  begin("whole").train();
  {
    auto run = begin("run");
    const auto stop = [] { return true; };
    EXPECT_EQ(run.train({.stop_evaluation = stop}).stop_reason, StopReason::stop_requested);
    EXPECT_THAT(sample_steps("run"), ElementsAre(0));
  }
  make_training_run(directory_ / "run", recipe_, {.mode = RunMode::resume}).train();
  EXPECT_EQ(files("run"), files("whole"));
}

TEST_F(RunHistoryTest, KeepsEverySecondSnapshotOfManyEvaluations) {
  recipe_.training.eval_every = 1;
  recipe_.training.eval_batches = 1;
  for (const auto& [steps, stride] : {std::array<int64_t, 2>{49, 1}, std::array<int64_t, 2>{50, 2},
                                      std::array<int64_t, 2>{100, 4}}) {
    recipe_.training.max_steps = steps;
    const auto name = std::to_string(steps);
    begin(name).train();
    EXPECT_EQ(sample_steps(name).back(), steps);
    std::vector<int64_t> expected;
    for (int64_t step = 0; step <= steps; step += stride) expected.push_back(step);
    EXPECT_EQ(snapshot_steps(name), expected);
  }
}

TEST_F(RunHistoryTest, DoesNotChangeTheModelAndTheRandomNumbers) {
  auto run = begin("run");
  auto& module = module_of(run.setup().model);
  RunHistory history(run.directory(), run.setup().model, *run.setup().task, 1, {});
  history.record(0);
  module.train();
  torch::manual_seed(3);
  const auto expected = torch::rand({4});
  torch::manual_seed(3);
  history.on_evaluation(4, {});
  EXPECT_TRUE(torch::rand({4}).equal(expected));
  EXPECT_TRUE(module.is_training());
}

TEST_F(RunHistoryTest, AModelWithoutFiniteLogitsHasNoSamples) {
  auto run = begin("run");
  {
    const torch::NoGradGuard no_grad;
    token_embedding_weight(run.setup().model).fill_(NAN);
  }
  RunHistory(run.directory(), run.setup().model, *run.setup().task, 1, {}).record(0);
  EXPECT_THAT(samples("run"),
              ElementsAre(nlohmann::json{{"step", 0}, {"samples", nlohmann::json::array()}}));
  EXPECT_THAT(snapshot_steps("run"), ElementsAre(0));
}

}  // namespace
}  // namespace attend::train
