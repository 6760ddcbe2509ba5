// Training with custom objectives. Some objectives train a convolution net on a dataset of
// torch::data.
#include "attend/train/objective.h"

#include "attend/input_error.h"
#include "attend/nn/freezing.h"
#include "attend/train/dataset_objective.h"
#include "attend/train/task_objective.h"
#include "support/small_runs.h"
#include "support/stripes.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/data/datasets/map.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/sgd.h>

#include <numeric>

namespace attend::train {
namespace {

TEST(Objective, AnyModuleIsTrained) {
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    auto config = stripes_config(150);
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
  auto config = stripes_config();
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

/// Counts its batches. The count is part of the objective's state, and the loss depends on it.
struct Counting : Objective {
  torch::nn::Module& module() override { return *net; }
  TrainingBatch training_batch(int64_t size, Sampler& /*sampler*/) override {
    const auto x = torch::full({size, 1}, static_cast<double>(++batches));
    return {size, size, [this, x] { return loss(x); }};
  }
  virtual TrainingLoss loss(const torch::Tensor& x) {
    return {.sum = net(x).square().sum(), .auxiliary = auxiliary * net->weight.abs().sum()};
  }
  Evaluation evaluate(const EvaluationOptions& /*options*/) override {
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
  Trainer trainer(first, stripes_config());
  trainer.run({.stop_requested = stopping_after(7)});
  const auto second = std::make_shared<Counting>();
  Trainer resumed(second, stripes_config());
  resumed.restore(trainer.checkpoint());
  EXPECT_EQ(second->batches, 7);
}

TEST(Objective, AuxiliaryLossIsAddedToTheMeanLoss) {
  auto config = stripes_config(1);
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
  EXPECT_THAT([] { Trainer(std::make_shared<Empty>(), stripes_config()); },
              throws<c10::ValueError>("has no parameters to train"));
}

TEST(Objective, ConfigOutOfRangeThrows) {
  auto config = stripes_config();
  config.eval_every = 0;
  EXPECT_THAT([&] { Trainer(std::make_shared<Counting>(), config); },
              throws<InputError>("eval_every is 0, expected a value between 1 and"));
}

/// Returns invalid batches or losses, as set by the tests below.
struct Faulty : Counting {
  TrainingBatch training_batch(int64_t size, Sampler& sampler) override {
    auto batch = Counting::training_batch(size, sampler);
    batch.num_targets = num_targets;
    return batch;
  }
  TrainingLoss loss(const torch::Tensor& x) override {
    auto loss = Counting::loss(x);
    change(loss);
    return loss;
  }

  int64_t num_targets = 8;
  std::function<void(TrainingLoss&)> change = [](TrainingLoss&) {};
};

TEST(Objective, BatchesWithoutTargetsThrow) {
  auto config = stripes_config();
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
      Trainer(objective, stripes_config()).run();
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
  EXPECT_THAT([&] { Trainer(objective, stripes_config()).run(); },
              throws<c10::ValueError>("all 2 parameters of the module"));
  EXPECT_THAT([&] { Trainer(objective, stripes_config()).run(); },
              throws<c10::ValueError>("are frozen, expected at least one that requires a gradient; "
                                      "call attend::unfreeze"));
}

TEST(Objective, NullThrows) {
  EXPECT_THAT([] { Trainer(nullptr, stripes_config()); },
              throws<c10::ValueError>("requires an objective, found null"));
  EXPECT_THAT(
      [] { Trainer(std::make_shared<Counting>(), stripes_config()).run({.observers = {nullptr}}); },
      throws<c10::ValueError>("observers that are not null"));
  using Images = DatasetObjective<Stripes>;
  const auto loss = [](const auto& x, const auto& y) { return classification_loss(x, y); };
  EXPECT_THAT([&] { Images(nullptr, Stripes(1), Stripes(2), loss); },
              throws<c10::ValueError>("requires a module, found null"));
  EXPECT_THAT([&] { Images(make_net().ptr(), Stripes(1), Stripes(2), {}); },
              throws<c10::ValueError>("requires a loss function, found null"));
  EXPECT_THAT([] { TaskObjective(LanguageModel(nullptr), nullptr, stripes_config()); },
              throws<c10::ValueError>("requires a task, found null"));
}

TEST(Objective, LbfgsThrowsBeforeTraining) {
  const auto net = make_net();
  EXPECT_THAT(
      [&] {
        Trainer(make_objective(net), stripes_config(), {},
                std::make_shared<torch::optim::LBFGS>(net->parameters(), 0.1));
      },
      throws_naming<c10::ValueError>("LBFGS", "closure"));
}

TEST(Objective, ATrainerAcceptsAnyOptimizerOfLibTorch) {
  // The first half of the parameters is trained, with momentum, in two groups.
  const auto trained = [&](int64_t stop, double momentum) {
    const auto make_trainer = [&](const torch::nn::Sequential& net) {
      const auto parameters = net->parameters();
      const auto options = torch::optim::SGDOptions(9.0).momentum(momentum);
      std::vector<torch::optim::OptimizerParamGroup> groups{{{parameters[0]}}, {{parameters[1]}}};
      return Trainer(
          make_objective(net), stripes_config(), [](int64_t) { return 0.01; },
          std::make_shared<torch::optim::SGD>(groups, options));
    };
    const auto net = make_net();
    auto first = make_trainer(net);
    first.run({.stop_requested = stopping_after(stop)});
    const auto saved = first.checkpoint();  // before `make_net` seeds the random number generators
    EXPECT_TRUE(net->parameters().back().equal(make_net()->parameters().back()));
    auto second = make_trainer(make_net());
    second.restore(saved);
    second.run();
    return second.checkpoint();
  };
  const auto whole = trained(12, 0.9);
  EXPECT_FALSE(equal_tensors(trained(12, 0.0).weights, whole.weights));
  for (const int64_t stop : {1, 5, 8}) {
    EXPECT_TRUE(equal_tensors(trained(stop, 0.9).weights, whole.weights)) << stop;
  }
  Trainer adamw(make_objective(make_net()), stripes_config());
  EXPECT_THAT([&] { adamw.restore(whole); }, throws_naming<InputError>("torch::optim::SGD"));
  const auto net = make_net();
  Trainer sgd(make_objective(net), stripes_config(), {},
              std::make_shared<torch::optim::SGD>(net->parameters(), 0.1));
  EXPECT_THAT([&] { sgd.restore(adamw.checkpoint()); },
              throws_naming<InputError>("torch::optim::SGD"));
  Trainer adam(make_objective(net), stripes_config(), {},
               std::make_shared<torch::optim::Adam>(net->parameters()));
  EXPECT_THAT([&] { sgd.restore(adam.checkpoint()); },
              throws_naming<InputError>("torch::optim::Adam", "torch::optim::SGD"));
}

TEST(Objective, AnOptimizerOfAnotherModuleThrows) {
  const auto net = make_net();
  auto parameters = net->parameters();
  parameters[1] = make_net()->parameters()[1];
  EXPECT_THAT(
      [&] {
        Trainer(make_objective(net), stripes_config(), {},
                std::make_shared<torch::optim::SGD>(parameters, 0.1));
      },
      throws_naming<c10::ValueError>("1", std::to_string(parameters.size()).c_str()));
}

TEST(Objective, AStoppedEvaluationIsRepeated) {
  const auto trained = [&](int64_t asked) {
    Trainer first(make_objective(make_net()), stripes_config());
    const auto result = first.run({.stop_evaluation = stopping_after(asked)});
    EXPECT_EQ(result.stop_reason, StopReason::stop_requested);
    EXPECT_TRUE(first.state().evaluation_pending);
    const auto saved = first.checkpoint();
    Trainer second(make_objective(make_net()), stripes_config());
    second.restore(saved);
    second.run();
    EXPECT_FALSE(second.state().evaluation_pending);
    return second.checkpoint();
  };
  Trainer whole(make_objective(make_net()), stripes_config());
  whole.run();
  for (const int64_t asked : {1, 2}) {  // stripes_config() evaluates several times
    const auto resumed = trained(asked);
    EXPECT_TRUE(equal_tensors(resumed.best, whole.checkpoint().best)) << asked;
    EXPECT_EQ(resumed.trainer_state.best_step, whole.state().best_step) << asked;
    EXPECT_TRUE(equal_tensors(resumed.weights, whole.checkpoint().weights)) << asked;
  }
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
  int64_t batches = 0;
  const auto count = [&](int64_t, int64_t) { ++batches; };
  const auto evaluation = objective->evaluate({.on_batch = count});
  EXPECT_EQ(batches, 1);
  Stripes data(2);
  std::vector<std::size_t> all(50);
  std::iota(all.begin(), all.end(), 0);
  const auto batch = get_batch(data, all);
  const auto loss = classification_loss(net->forward(batch.data), batch.target);
  EXPECT_NEAR(evaluation.loss, loss.sum.item<double>() / 50, 1e-6);
  EXPECT_EQ(evaluation.accuracy(), loss.exact_match().accuracy());
  EXPECT_EQ(evaluation.num_targets, 50);
}

}  // namespace
}  // namespace attend::train
