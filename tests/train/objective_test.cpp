// Training a custom module: a convolution net on a dataset of torch::data.
#include "attend/train/objective.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/nn/freezing.h"
#include "attend/train/dataset_objective.h"
#include "attend/train/task_objective.h"
#include "attend/train/training_run.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <torch/data/datasets/map.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <sstream>

namespace attend::train {
namespace {

/// Noisy images (1, 6, 6) with a bright row (class 0) or column (class 1).
struct Stripes : torch::data::datasets::Dataset<Stripes> {
  explicit Stripes(uint64_t seed) {
    auto generator = torch::make_generator<torch::CPUGeneratorImpl>(seed);
    for (int64_t i = 0; i < 50; ++i) {
      auto image = 0.1 * torch::randn({1, 6, 6}, generator);
      image.select(1 + i % 2, i % 6).add_(1.0);
      images.push_back(image);
    }
  }
  torch::data::Example<> get(std::size_t index) override {
    return {images[index], torch::tensor(static_cast<int64_t>(index % 2), torch::kLong)};
  }
  std::optional<std::size_t> size() const override { return images.size(); }

  std::vector<torch::Tensor> images;
};

torch::nn::Sequential make_net() {
  torch::manual_seed(5);
  return torch::nn::Sequential(torch::nn::Conv2d(1, 4, 3), torch::nn::BatchNorm2d(4),
                               torch::nn::Functional(torch::relu), torch::nn::Flatten(),
                               torch::nn::Dropout(0.2), torch::nn::Linear(64, 2));
}

std::shared_ptr<Objective> make_objective(torch::nn::Sequential net) {
  return std::make_shared<DatasetObjective<Stripes>>(
      net.ptr(), Stripes(1), Stripes(2), [net](const auto& images, const auto& labels) mutable {
        return classification_loss(net->forward(images), labels);
      });
}

TrainingConfig small_config(int64_t steps = 12) {
  return {.max_steps = steps,
          .batch_size = 8,
          .lr = 1e-2,
          .warmup_steps = 2,
          .eval_every = 5,
          .checkpoint_every = 3,
          .log_every = 2,
          .threads = 1,
          .device = "cpu"};
}

/// A `stop_requested` that returns true after `steps` steps.
auto stopping_after(int64_t steps) {
  return [steps, done = int64_t{0}]() mutable { return ++done >= steps; };
}

TEST(Objective, AnyModuleIsTrained) {
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    auto config = small_config(150);
    config.precision = precision;
    config.optimizer = OptimizerKind::muon;
    Recorder recorder;
    const auto state =
        Trainer(make_objective(make_net()), config).run({.observers = {&recorder}}).state;
    EXPECT_EQ(state.best->accuracy(), 1.0);
    EXPECT_EQ(state.best->num_targets, 50);
    EXPECT_EQ(state.tokens, 150 * 8);
    EXPECT_LT(recorder.progress.front().accuracy.value(),
              recorder.progress.back().accuracy.value());
  }
}

TEST(Objective, ResumedTrainingEqualsUninterruptedTraining) {
  auto config = small_config();
  config.gradient_accumulation_steps = 2;  // the epoch of 50 samples ends within a step
  const auto trained = [&](int64_t stop) {
    Trainer first(make_objective(make_net()), config);
    first.run({.stop_requested = stopping_after(stop)});
    const auto saved = first.checkpoint();  // before `second` seeds the random number generators
    Trainer second(make_objective(make_net()), config);
    second.restore(saved);
    second.run();
    return second.checkpoint();
  };
  const auto whole = trained(12);
  for (const int64_t stop : {1, 5, 8}) {
    const auto resumed = trained(stop);
    EXPECT_TRUE(equal_tensors(resumed.weights, whole.weights)) << stop;
    EXPECT_TRUE(equal_tensors(resumed.state, whole.state)) << stop;
  }
}

/// Counts its batches in state of its own, which the loss depends on.
struct Counting : Objective {
  torch::nn::Module& module() override { return *net; }
  TrainingBatch training_batch(int64_t size, Sampler& /*sampler*/) override {
    return {{torch::full({size, 1}, static_cast<double>(++batches))}, size, size};
  }
  TrainingLoss training_loss(const TrainingBatch& batch) override {
    return {.sum = net(batch.tensors[0]).square().sum(),
            .auxiliary = auxiliary * net->weight.abs().sum()};
  }
  Evaluation evaluate() override {
    EXPECT_FALSE(net->is_training());
    EXPECT_FALSE(torch::GradMode::is_enabled());
    return {.loss = net->weight.square().sum().item<double>(), .num_targets = 1};
  }
  std::map<std::string, torch::Tensor> state() const override {
    return {{"batches", torch::tensor(batches)}};
  }
  void load_state(const std::map<std::string, torch::Tensor>& state) override {
    batches = state.at("batches").item<int64_t>();
  }

  torch::nn::Linear net{1, 1};
  int64_t batches = 0;
  double auxiliary = 0.0;
};

TEST(Objective, ItsStateIsSavedAndRestored) {
  const auto first = std::make_shared<Counting>();
  Trainer trainer(first, small_config());
  trainer.run({.stop_requested = stopping_after(7)});
  const auto second = std::make_shared<Counting>();
  Trainer resumed(second, small_config());
  resumed.restore(trainer.checkpoint());
  EXPECT_EQ(second->batches, 7);
}

TEST(Objective, AuxiliaryLossIsAddedToTheMeanLoss) {
  auto config = small_config(1);
  config.max_grad_norm = 0.0;
  const auto gradient = [&](double auxiliary, int64_t accumulation) {
    torch::manual_seed(1);
    const auto objective = std::make_shared<Counting>();
    objective->auxiliary = auxiliary;
    config.gradient_accumulation_steps = accumulation;
    Trainer(objective, config).run();
    return objective->net->weight.grad().item<double>();
  };
  for (const int64_t accumulation : {1, 3}) {
    const double difference = gradient(0.25, accumulation) - gradient(0.0, accumulation);
    EXPECT_NEAR(std::abs(difference), 0.25, 1e-5);
  }
}

TEST(Objective, ModuleWithoutParametersThrows) {
  struct Empty : Counting {
    torch::nn::Module& module() override { return dropout; }
    torch::nn::DropoutImpl dropout;
  };
  EXPECT_THAT([] { Trainer(std::make_shared<Empty>(), small_config()); },
              throws<c10::ValueError>("has no parameters to train"));
}

TEST(Objective, ConfigOutOfRangeThrows) {
  auto config = small_config();
  config.eval_every = 0;
  EXPECT_THAT([&] { Trainer(std::make_shared<Counting>(), config); },
              throws<InputError>("eval_every is 0, expected a value between 1 and"));
}

/// Returns a batch and a loss that the tests below make wrong.
struct Faulty : Counting {
  TrainingBatch training_batch(int64_t size, Sampler& sampler) override {
    auto batch = Counting::training_batch(size, sampler);
    batch.num_targets = num_targets;
    return batch;
  }
  TrainingLoss training_loss(const TrainingBatch& batch) override {
    auto loss = Counting::training_loss(batch);
    change(loss);
    return loss;
  }

  int64_t num_targets = 8;
  std::function<void(TrainingLoss&)> change = [](TrainingLoss&) {};
};

TEST(Objective, BatchesWithoutTargetsThrow) {
  auto config = small_config();
  config.gradient_accumulation_steps = 3;
  const auto training = [&](int64_t num_targets) {
    return [&config, num_targets] {
      const auto objective = std::make_shared<Faulty>();
      objective->num_targets = num_targets;
      Trainer(objective, config).run();
    };
  };
  EXPECT_THAT(training(0),
              throws<c10::ValueError>("found 0 targets in the 3 batches of step 1, expected at "
                                      "least 1; set TrainingBatch::num_targets"));
  EXPECT_THAT(training(-1), throws<c10::ValueError>("found -1 targets, expected 0 or more"));
}

TEST(Objective, LossesThatCannotBeTrainedOnThrow) {
  const auto training = [](std::function<void(TrainingLoss&)> change) {
    return [change] {
      const auto objective = std::make_shared<Faulty>();
      objective->change = change;
      Trainer(objective, small_config()).run();
    };
  };
  EXPECT_NO_THROW(training([](TrainingLoss&) {})());
  EXPECT_THAT(training([](TrainingLoss& loss) { loss.sum = loss.sum.expand({8}); }),
              throws<c10::ValueError>("`sum` has shape [8], expected a 0-dim tensor: the loss "
                                      "summed over the targets, for example with .sum()"));
  EXPECT_THAT(training([](TrainingLoss& loss) { loss.sum = loss.sum.view({1}); }),
              throws<c10::ValueError>("`sum` has shape [1], expected a 0-dim tensor"));
  EXPECT_THAT(training([](TrainingLoss& loss) { loss.sum = torch::Tensor(); }),
              throws<c10::ValueError>("`sum` is undefined, expected a 0-dim tensor"));
  EXPECT_THAT(training([](TrainingLoss& loss) { loss.auxiliary = torch::zeros({2}); }),
              throws<c10::ValueError>("`auxiliary` has shape [2], expected a 0-dim tensor"));
  EXPECT_THAT(training([](TrainingLoss& loss) {
                loss.sum = loss.sum.detach();
                loss.auxiliary = torch::Tensor();
              }),
              throws<c10::ValueError>("the loss requires no gradient"));
}

TEST(Objective, AllParametersFrozenThrows) {
  const auto objective = std::make_shared<Counting>();
  freeze(*objective->net);
  EXPECT_THAT([&] { Trainer(objective, small_config()).run(); },
              throws<c10::ValueError>("all 2 parameters of the module"));
  EXPECT_THAT([&] { Trainer(objective, small_config()).run(); },
              throws<c10::ValueError>("are frozen, expected at least one that requires a gradient; "
                                      "call attend::unfreeze"));
}

TEST(Objective, NullThrows) {
  EXPECT_THAT([] { Trainer(nullptr, small_config()); },
              throws<c10::ValueError>("requires an objective, found null"));
  EXPECT_THAT([] { TrainingRun::begin("unused", nullptr, small_config()); },
              throws<c10::ValueError>("requires an objective, found null"));
  EXPECT_THAT(
      [] { Trainer(std::make_shared<Counting>(), small_config()).run({.observers = {nullptr}}); },
      throws<c10::ValueError>("observers that are not null"));
  using Images = DatasetObjective<Stripes>;
  const auto loss = [](const auto& x, const auto& y) { return classification_loss(x, y); };
  EXPECT_THAT([&] { Images(nullptr, Stripes(1), Stripes(2), loss); },
              throws<c10::ValueError>("requires a module, found null"));
  EXPECT_THAT([&] { Images(make_net().ptr(), Stripes(1), Stripes(2), {}); },
              throws<c10::ValueError>("requires a loss function, found null"));
  EXPECT_THAT([] { TaskObjective(LanguageModel(nullptr), nullptr, small_config()); },
              throws<c10::ValueError>("requires a task, found null"));
}

TEST(DatasetObjective, AcceptsMappedDatasets) {
  auto mapped = Stripes(1).map(torch::data::transforms::Stack<>());
  const auto batch = get_batch(mapped, {0, 3, 2});
  Stripes plain(1);
  const auto expected = get_batch(plain, {0, 3, 2});
  EXPECT_TRUE(batch.data.equal(expected.data));
  EXPECT_TRUE(batch.target.equal(torch::tensor({0, 1, 0})));
}

TEST(DatasetObjective, EvaluatesAllSamplesInEvalMode) {
  auto net = make_net();
  const auto objective = make_objective(net);
  net->eval();
  const torch::NoGradGuard no_grad;
  const auto evaluation = objective->evaluate();
  Stripes data(2);
  std::vector<std::size_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  const auto batch = get_batch(data, all);
  const auto loss = classification_loss(net->forward(batch.data), batch.target);
  EXPECT_NEAR(evaluation.loss, loss.sum.item<double>() / 50, 1e-6);
  EXPECT_EQ(evaluation.accuracy(), loss.exact_match().accuracy());
  EXPECT_EQ(evaluation.num_targets, 50);
}

class ModuleRun : public testing::Test {
 protected:
  TrainingRun begin(const std::string& name) {
    return TrainingRun::begin(directory_ / name, make_objective(make_net()), small_config(),
                              {.values = {{"channels", "4"}}});
  }
  TrainingRun resume(const std::string& name, const TrainingConfig& config,
                     const std::string& channels = "4") {
    return TrainingRun::resume(directory_ / name, make_objective(make_net()), config,
                               {.values = {{"channels", channels}}});
  }
  std::string weights_of(const std::string& name) {
    return read_bytes(directory_ / name / RunFiles::model);
  }

  TemporaryDirectory directory_;
};

TEST_F(ModuleRun, ResumedEqualsUninterrupted) {
  auto whole = begin("whole");
  whole.finish(whole.train());
  {
    auto stopped = begin("stopped");
    EXPECT_EQ(stopped.train({}, stopping_after(7)).stop_reason, StopReason::stop_requested);
  }
  auto resumed = resume("stopped", small_config());
  EXPECT_EQ(resumed.resumed_state().step, 7);
  resumed.finish(resumed.train());
  EXPECT_EQ(weights_of("stopped"), weights_of("whole"));
  for (const char* name : {"recipe.toml", "metrics.jsonl", "summary.json", "checkpoint"}) {
    EXPECT_TRUE(std::filesystem::exists(directory_ / "stopped" / name)) << name;
  }
}

TEST_F(ModuleRun, FinishLoadsTheBestWeights) {
  const auto net = make_net();
  auto run = TrainingRun::begin(directory_ / "run", make_objective(net), small_config());
  run.finish(run.train());
  auto loaded = make_net();
  RunDirectory::open(directory_ / "run").load_weights(*loaded);
  EXPECT_TRUE(equal_tensors(state_dict(*loaded), state_dict(*net)));
  EXPECT_FALSE(net->is_training());
}

TEST_F(ModuleRun, BeginOrResumeOpensAFinishedRun) {
  const auto path = directory_ / "run";
  const auto run_once = [&](const TrainingConfig& config) {
    const auto net = make_net();
    auto run = TrainingRun::begin_or_resume(path, make_objective(net), config);
    Recorder recorder;
    const auto result = run.train({&recorder});
    run.finish(result);
    EXPECT_FALSE(net->is_training());
    auto best = make_net();
    RunDirectory::open(path).load_weights(*best);
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
  const auto first = run_once(small_config());
  const auto written = files();
  auto config = small_config();
  config.eval_every = 3;  // recipe.toml keeps the values that the run was trained with
  const auto again = run_once(config);
  EXPECT_EQ(again.stop_reason, StopReason::max_steps);
  EXPECT_EQ(again.state.step, 12);
  EXPECT_EQ(again.state.best->loss, first.state.best->loss);
  EXPECT_EQ(again.tokens_per_second, first.tokens_per_second);
  EXPECT_EQ(files(), written);
  EXPECT_EQ(run_once(small_config(20)).state.step, 20) << "more steps continue it";
  EXPECT_THAT([&] { run_once(small_config(15)); },
              throws<InputError>("already trained for 20/15 steps; pass a larger max_steps"));
}

TEST_F(ModuleRun, BeginOrResumeOpensARunThatStoppedEarly) {
  auto config = small_config(1000);
  config.patience = 2;
  config.lr = 0.0;
  for (const bool finished : {false, true}) {
    auto run = TrainingRun::begin_or_resume(directory_ / "run", make_objective(make_net()), config);
    const auto result = run.train();
    run.finish(result);
    EXPECT_EQ(run.is_finished(), finished);
    EXPECT_EQ(result.stop_reason, StopReason::patience);
    EXPECT_LT(result.state.step, 1000);
  }
  EXPECT_THAT(
      [&] { TrainingRun::resume(directory_ / "run", make_objective(make_net()), config); },
      throws<InputError>("evaluations without improvement; pass a larger patience to continue"));
}

TEST_F(ModuleRun, BeginReplacesARunWithOverwrite) {
  begin("run").train({}, stopping_after(4));
  EXPECT_THAT([&] { begin("run"); }, throws<InputError>("exists and is not empty"));
  const auto run = TrainingRun::begin(directory_ / "run", make_objective(make_net()),
                                      small_config(), {}, /*overwrite=*/true);
  EXPECT_EQ(run.resumed_state().step, 0);
}

TEST_F(ModuleRun, TrainContinuesAfterAStop) {
  auto whole = begin("whole");
  whole.finish(whole.train());
  auto run = begin("run");
  EXPECT_EQ(run.train({}, stopping_after(7)).state.step, 7);
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

TEST_F(ModuleRun, HasItsConfigInTheDirectory) {
  begin("run");
  const auto directory = RunDirectory::open(directory_ / "run");
  EXPECT_TRUE(directory.is_custom());
  const auto config = directory.custom_config();
  EXPECT_EQ(config.values, (std::map<std::string, std::string>{{"channels", "4"}}));
  EXPECT_EQ(config.training.lr, 1e-2);
  EXPECT_EQ(config.training.eval_every, 5);
}

TEST_F(ModuleRun, UsesTheScheduleOfItsOptions) {
  Recorder recorder;
  auto run = TrainingRun::begin(
      directory_ / "run", make_objective(make_net()), small_config(),
      {.schedule = [](int64_t step) { return 0.001 * static_cast<double>(step + 1); }});
  run.train({&recorder});
  ASSERT_FALSE(recorder.progress.empty());
  for (const auto& progress : recorder.progress) {
    EXPECT_DOUBLE_EQ(progress.lr, 0.001 * static_cast<double>(progress.step));
  }
}

TEST_F(ModuleRun, ResumeChecksConfigValuesAndModule) {
  begin("run").train({}, stopping_after(4));
  auto config = small_config();
  config.seed = 2;
  EXPECT_THAT([&] { resume("run", config); }, throws<InputError>("seed: '1' in the run, now '2'"));
  config = small_config();
  config.optimizer = OptimizerKind::muon;
  EXPECT_THAT([&] { resume("run", config); },
              throws<InputError>("optimizer: 'adamw' in the run, now 'muon'"));
  EXPECT_THAT([&] { resume("run", small_config(), "8"); },
              throws<InputError>("values.channels: '4' in the run, now '8'"));
  EXPECT_THAT(
      [&] {
        TrainingRun::resume(directory_ / "run", std::make_shared<Counting>(), small_config(),
                            {.values = {{"channels", "4"}}});
      },
      throws<InputError>("the state dict does not match"));
  EXPECT_NO_THROW(resume("run", small_config(20)));
}

TEST_F(ModuleRun, IsNotLoadedAsARunOfARecipe) {
  begin("run");
  EXPECT_THAT([&] { RunDirectory::open(directory_ / "run").load(); },
              throws<InputError>("not trained from a recipe; use RunDirectory::load_weights"));
}

}  // namespace
}  // namespace attend::train
