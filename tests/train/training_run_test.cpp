#include "attend/train/training_run.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/stripes.h"
#include "support/temporary_directory.h"
#include "support/throws.h"
#include "train/device.h"
#include "train/run_record.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <filesystem>
#include <sstream>

namespace attend::train {
namespace {

class TrainingRunTest : public testing::Test {
 protected:
  TrainingRun begin(const std::string& name) {
    return TrainingRun(directory_ / name, make_objective(make_net()), stripes_config(),
                       {.mode = RunMode::begin, .values = {{"channels", "4"}}});
  }
  TrainingRun resume(const std::string& name, const TrainingConfig& config,
                     const std::string& channels = "4") {
    return TrainingRun(directory_ / name, make_objective(make_net()), config,
                       {.mode = RunMode::resume, .values = {{"channels", channels}}});
  }
  /// Returns the bytes of the best weights without the id of the run, which differs in each run.
  std::string weights_of(const std::string& name) {
    auto bytes = read_bytes(directory_ / name / RunFiles::model);
    const auto run_id = read_record(directory_ / name / RunFiles::data).run_id;
    return bytes.erase(bytes.find(run_id), run_id.size());
  }

  TemporaryDirectory directory_;
};

TEST_F(TrainingRunTest, ResumedEqualsUninterrupted) {
  auto whole = begin("whole");
  whole.finish(whole.train());
  {
    auto stopped = begin("stopped");
    EXPECT_EQ(stopped.train({.stop_requested = stopping_after(7)}).stop_reason,
              StopReason::stop_requested);
  }
  auto resumed = resume("stopped", stripes_config());
  EXPECT_EQ(resumed.state().step, 7);
  resumed.finish(resumed.train());
  EXPECT_EQ(weights_of("stopped"), weights_of("whole"));
  for (const char* name : {"recipe.toml", "metrics.jsonl", "summary.json", "checkpoint"}) {
    EXPECT_TRUE(std::filesystem::exists(directory_ / "stopped" / name)) << name;
  }
}

TEST_F(TrainingRunTest, FinishEvaluatesTheBestWeightsOnAllData) {
  auto recipe = small_recipe("sort");
  recipe.training.eval_batches = 1;
  auto run = make_training_run(directory_ / "run", recipe, {.mode = RunMode::begin});
  const auto result = run.train();
  EXPECT_TRUE(result.state.best->is_partial);
  const auto best = run.finish(result).state.best;
  EXPECT_FALSE(best->is_partial);
  auto loaded = RunDirectory::open(directory_ / "run").load();
  EXPECT_EQ(best->loss, evaluate(loaded.model, *loaded.make_task()).loss);
  const auto summary = nlohmann::json::parse(read_bytes(directory_ / "run" / RunFiles::summary));
  EXPECT_EQ(summary["val_loss"], best->loss);
}

TEST_F(TrainingRunTest, FinishNamesARemovedDirectory) {
  auto run = make_training_run(directory_ / "run", small_recipe("sort"), {.mode = RunMode::begin});
  const auto result = run.train();
  std::filesystem::remove_all(directory_ / "run");
  EXPECT_THAT([&] { run.finish(result); },
              throws_naming<std::runtime_error>((directory_ / "run").string().c_str()));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run"));
}

TEST_F(TrainingRunTest, FinishLoadsTheBestWeights) {
  const auto net = make_net();
  TrainingRun run(directory_ / "run", make_objective(net), stripes_config(),
                  {.mode = RunMode::begin});
  run.finish(run.train());
  auto loaded = make_net();
  RunDirectory::open(directory_ / "run").load_weights(loaded);
  EXPECT_TRUE(equal_tensors(state_dict(*loaded), state_dict(*net)));
  EXPECT_FALSE(net->is_training());
}

TEST_F(TrainingRunTest, BeginOrResumeOpensAFinishedRun) {
  const auto path = directory_ / "run";
  const auto run_once = [&](const TrainingConfig& config) {
    const auto net = make_net();
    TrainingRun run(path, make_objective(net), config);
    Recorder recorder;
    const auto result = run.train({.observers = {&recorder}});
    run.finish(result);
    EXPECT_FALSE(net->is_training());
    auto best = make_net();
    RunDirectory::open(path).load_weights(best);
    EXPECT_TRUE(equal_tensors(state_dict(*best), state_dict(*net)));
    EXPECT_EQ(run.is_finished(), recorder.progress.empty());
    EXPECT_EQ(recorder.finished, 1);
    return result;
  };
  const auto files = [&] {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) contents[entry.path()] = read_bytes(entry.path());
    }
    return contents;
  };
  const auto first = run_once(stripes_config());
  const auto written = files();
  auto config = stripes_config();
  config.eval_every = 3;  // must not change recipe.toml, because the run is already finished
  const auto again = run_once(config);
  EXPECT_EQ(again.stop_reason, StopReason::max_steps);
  EXPECT_EQ(again.state.step, 12);
  EXPECT_EQ(again.state.best->loss, first.state.best->loss);
  EXPECT_EQ(again.tokens_per_second, first.tokens_per_second);
  EXPECT_EQ(files(), written);
  EXPECT_EQ(run_once(stripes_config(20)).state.step, 20)
      << "a larger max_steps must continue the run";
  EXPECT_THAT([&] { run_once(stripes_config(15)); },
              throws<InputError>("already trained for 20/15 steps; pass a larger max_steps"));
}

TEST_F(TrainingRunTest, ARunThatStoppedEarlyIsFinished) {
  auto config = stripes_config(1000);
  config.patience = 2;
  config.lr = 0.0;
  for (const auto& [mode, finished] :
       {std::pair(RunMode::begin_or_resume, false), std::pair(RunMode::begin_or_resume, true),
        std::pair(RunMode::resume, true)}) {
    TrainingRun run(directory_ / "run", make_objective(make_net()), config, {.mode = mode});
    const auto result = run.train();
    run.finish(result);
    EXPECT_EQ(run.is_finished(), finished);
    EXPECT_EQ(result.stop_reason, StopReason::patience);
    EXPECT_LT(result.state.step, 1000);
  }
}

TEST_F(TrainingRunTest, BeginReplacesARunWithOverwrite) {
  begin("run").train({.stop_requested = stopping_after(4)});
  EXPECT_THAT([&] { begin("run"); }, throws<InputError>("exists and is not empty"));
  const TrainingRun run(directory_ / "run", make_objective(make_net()), stripes_config(),
                        {.mode = RunMode::overwrite});
  EXPECT_EQ(run.state().step, 0);
}

TEST_F(TrainingRunTest, TrainContinuesAfterAStop) {
  auto whole = begin("whole");
  whole.finish(whole.train());
  auto run = begin("run");
  EXPECT_EQ(run.train({.stop_requested = stopping_after(7)}).state.step, 7);
  run.finish(run.train());
  EXPECT_EQ(weights_of("run"), weights_of("whole"));
  const auto steps = [&](const std::string& name) {
    std::istringstream lines(read_bytes(directory_ / name / RunFiles::metrics));
    std::vector<int64_t> found;
    for (std::string line; std::getline(lines, line);)
      found.push_back(nlohmann::json::parse(line).at("step"));
    return found;
  };
  EXPECT_EQ(steps("run"), steps("whole"));
}

TEST_F(TrainingRunTest, AnEvaluationThatIsRepeatedAfterAStopIsSaved) {
  auto config = stripes_config();
  config.eval_every = config.max_steps;
  config.checkpoint_every = config.max_steps + 1;
  const auto open = [&] {
    return TrainingRun(directory_ / "run", make_objective(make_net()), config);
  };
  open().train({.stop_evaluation = [] { return true; }});
  {
    auto run = open();
    ASSERT_TRUE(run.state().evaluation_pending);
    run.finish(run.train());
  }
  EXPECT_TRUE(open().is_finished());
}

TEST_F(TrainingRunTest, HasItsConfigInTheDirectory) {
  begin("run");
  const auto directory = RunDirectory::open(directory_ / "run");
  EXPECT_TRUE(directory.is_custom());
  const auto config = directory.custom_config();
  EXPECT_EQ(config.values, (std::map<std::string, std::string>{{"channels", "4"}}));
  EXPECT_EQ(config.training.lr, 1e-2);
  EXPECT_EQ(config.training.eval_every, 5);
}

TEST_F(TrainingRunTest, UsesTheScheduleOfItsOptions) {
  Recorder recorder;
  TrainingRun run(directory_ / "run", make_objective(make_net()), stripes_config(),
                  {.mode = RunMode::begin,
                   .schedule = [](int64_t step) { return 0.001 * static_cast<double>(step + 1); }});
  run.train({.observers = {&recorder}});
  ASSERT_FALSE(recorder.progress.empty());
  for (const auto& progress : recorder.progress) {
    EXPECT_DOUBLE_EQ(progress.lr, 0.001 * static_cast<double>(progress.step));
  }
}

TEST_F(TrainingRunTest, ResumeChecksConfigValuesAndModule) {
  begin("run").train({.stop_requested = stopping_after(4)});
  auto config = stripes_config();
  config.seed = 2;
  EXPECT_THAT([&] { resume("run", config); }, throws<InputError>("seed: '1' in the run, now '2'"));
  config = stripes_config();
  config.optimizer = OptimizerKind::muon;
  EXPECT_THAT([&] { resume("run", config); },
              throws<InputError>("optimizer: 'adamw' in the run, now 'muon'"));
  EXPECT_THAT([&] { resume("run", stripes_config(), "8"); },
              throws<InputError>("values.channels: '4' in the run, now '8'"));
  const auto resume_another = [&] {
    torch::nn::Sequential another(torch::nn::Linear(36, 2));
    TrainingRun(directory_ / "run", make_objective(another), stripes_config(),
                {.mode = RunMode::resume, .values = {{"channels", "4"}}});
  };
  EXPECT_THAT(resume_another, throws<InputError>("the state dict does not match"));
  EXPECT_NO_THROW(resume("run", stripes_config(20)));
}

TEST_F(TrainingRunTest, ResumeChecksTheTypeOfTheOptimizer) {
  const auto open = [&](auto make) {
    const auto net = make_net();
    return TrainingRun(directory_ / "run", make_objective(net), stripes_config(),
                       {.optimizer = make(net->parameters())});
  };
  const auto sgd = [](const auto& parameters) {
    return std::make_shared<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.1));
  };
  const auto adam = [](const auto& parameters) {
    return std::make_shared<torch::optim::Adam>(parameters);
  };
  const auto adamw = [](const auto&) -> std::shared_ptr<torch::optim::Optimizer> {
    return nullptr;
  };
  open(sgd).train({.stop_requested = stopping_after(4)});
  EXPECT_EQ(open(sgd).state().step, 4);
  const auto found = "'torch::optim::SGD'";
  EXPECT_THAT([&] { open(adam); },
              throws_naming<InputError>("optimizer", found, "'torch::optim::Adam'"));
  EXPECT_THAT([&] { open(adamw); }, throws_naming<InputError>("optimizer", found, "'adamw'"));
}

TEST_F(TrainingRunTest, AResultOfMakeOptimizerHasTheTypeOfItsConfig) {
  auto config = stripes_config();
  config.optimizer = OptimizerKind::muon;
  TrainingRun(directory_ / "run", make_objective(make_net()), config, {.mode = RunMode::begin});
  const auto net = make_net();
  EXPECT_NO_THROW(
      TrainingRun(directory_ / "run", make_objective(net), config,
                  {.mode = RunMode::resume, .optimizer = make_optimizer(*net, config)}));
}

TEST_F(TrainingRunTest, IsNotLoadedAsARunOfARecipe) {
  begin("run");
  EXPECT_THAT([&] { RunDirectory::open(directory_ / "run").load(); },
              throws<InputError>("not trained from a recipe; use RunDirectory::load_weights"));
}

TEST_F(TrainingRunTest, ThreadsAreChangedOnlyDuringTraining) {
  const NumThreadsGuard available(2);
  auto config = stripes_config();
  config.threads = 3;
  TrainingRun run(directory_ / "run", make_objective(make_net()), config, {.mode = RunMode::begin});
  EXPECT_EQ(torch::get_num_threads(), 2);
  int during = 0;
  const auto result =
      run.train({.stop_requested = [&] { return (during = torch::get_num_threads()) == 0; }});
  EXPECT_EQ(during, 3);
  EXPECT_EQ(torch::get_num_threads(), 2);
  run.finish(result);
  EXPECT_EQ(torch::get_num_threads(), 2);
}

TEST_F(TrainingRunTest, OptionsOfTheOtherKindOfRunAreRefused) {
  const auto path = directory_ / "run";
  const auto net = make_net();
  EXPECT_THAT(
      [&] { TrainingRun(path, make_objective(net), stripes_config(), {.init_from = path}); },
      throws_naming<c10::ValueError>("init_from"));
  const TrainingRun objective_run(path, make_objective(net), stripes_config());
  EXPECT_THAT([&] { objective_run.setup(); }, throws_naming<c10::ValueError>("make_training_run"));
  const auto recipe = small_recipe("sort");
  const auto make = [&](const TrainingRunOptions& options) {
    return [&, options] { make_training_run(directory_ / "recipe", recipe, options); };
  };
  EXPECT_THAT(make({.values = {{"channels", "4"}}}), throws_naming<c10::ValueError>("values"));
  EXPECT_THAT(make({.optimizer = make_optimizer(*net, stripes_config())}),
              throws_naming<c10::ValueError>("optimizer"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "recipe"));
}

TEST(TrainingRun, NullObjectiveThrows) {
  EXPECT_THAT([] { TrainingRun("unused", nullptr, stripes_config(), {.mode = RunMode::begin}); },
              throws<c10::ValueError>("requires an objective, found null"));
}

}  // namespace
}  // namespace attend::train
