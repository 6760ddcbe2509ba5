// Trains with several processes, which are threads here, and compares them with a single process.
// In float64, rounding errors are too small for training to amplify them, unlike in float32.
#include "attend/io/safetensors.h"
#include "attend/train/task_objective.h"
#include "attend/train/trainer.h"
#include "attend/train/training_setup.h"
#include "support/in_threads.h"
#include "support/small_runs.h"
#include "support/temporary_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <string>
#include <variant>

namespace attend::distributed {
namespace {

using train::Recipe;

/// Contains the norm of the last gradient.
struct LastGradNorm : train::Observer {
  void on_progress(const train::Progress& progress) override { value = progress.grad_norm; }
  std::optional<double> value;
};

/// A model and its trainer.
struct Training {
  explicit Training(const Recipe& recipe, torch::ScalarType dtype = torch::kDouble)
      : recipe(recipe), setup(train::make_training_setup(recipe)) {
    module_of(setup.model).to(dtype);
  }

  /// Trains, from `checkpoint` if it is given.
  void run(const std::shared_ptr<train::Processes>& processes, train::TrainerHooks hooks = {},
           const std::optional<train::Checkpoint>& checkpoint = {}) {
    train::Trainer trainer(
        std::make_shared<train::TaskObjective>(setup.model, setup.task, recipe.training),
        recipe.training, {}, nullptr, processes);
    if (checkpoint) trainer.restore(*checkpoint);
    hooks.observers.push_back(&grad_norm);
    state = trainer.run(hooks).state;
  }

  Recipe recipe;
  train::TrainingSetup setup;
  train::TrainerState state;
  LastGradNorm grad_norm;  // observed in rank 0 only
};

/// Returns the part of a weight that is compared: all but the biases of keys. Softmax does not
/// depend on these biases, so that their gradients are rounding errors, of which AdamW makes large
/// steps.
torch::Tensor compared(const std::string& name, const torch::Tensor& weight) {
  if (!name.ends_with("qkv.bias")) return weight;
  const auto parts = weight.chunk(3);  // (E) each: queries, keys, values
  return torch::cat({parts[0], parts[2]});
}

/// Norm of the difference of all weights, divided by the norm of the weights.
double distance(Training& found, Training& expected) {
  double difference = 0.0;
  double norm = 0.0;
  const auto weights = state_dict(module_of(found.setup.model));
  for (const auto& [name, weight] : state_dict(module_of(expected.setup.model))) {
    difference +=
        (compared(name, weights.at(name)) - compared(name, weight)).square().sum().item<double>();
    norm += weight.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

/// Relative differences that are accepted.
struct Tolerance {
  double losses = 1e-12;
  double weights = 1e-12;
  double grad_norm = 1e-11;
};

void expect_equal(Training& found, Training& expected, const Tolerance& tolerance = {}) {
  EXPECT_EQ(found.state.step, expected.state.step);
  EXPECT_EQ(found.state.tokens, expected.state.tokens);
  EXPECT_NEAR(found.state.train_loss / expected.state.train_loss, 1.0, tolerance.losses);
  EXPECT_NEAR(found.state.last->loss / expected.state.last->loss, 1.0, tolerance.losses);
  EXPECT_EQ(found.state.last->num_targets, expected.state.last->num_targets);
  if (tolerance.weights == 0.0) {
    EXPECT_EQ(distance(found, expected), 0.0);
  } else {
    EXPECT_LT(distance(found, expected), tolerance.weights);
  }
}

/// Changes a recipe.
using Change = void (*)(Recipe&);

/// Small batches, for the tasks that are not also trained with gradient accumulation.
void small_batches(Recipe& recipe) {
  recipe.training.batch_size = 5;  // parts of 2 and 3 samples
  recipe.training.gradient_accumulation_steps = 1;
}

void muon(Recipe& recipe) {
  small_batches(recipe);
  recipe.training.optimizer = train::OptimizerKind::muon;
}

void untied(Recipe& recipe) {
  small_batches(recipe);
  std::get<LanguageModelConfig>(recipe.model).tie_embeddings = false;
}

/// Number of processes, task, and change of the recipe. Embeddings are tied by default.
struct Case {
  int64_t size;
  const char* task;
  Change change = [](Recipe&) {};
};

struct TrainingInProcesses : testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    , TrainingInProcesses,
    testing::Values(Case(2, "copy"), Case(2, "balanced-brackets"), Case(2, "translation"),
                    Case(3, "copy"), Case(2, "senses", small_batches), Case(2, "reverse", untied),
                    Case(2, "sort", muon), Case(2, "addition", small_batches),
                    Case(2, "modular-arithmetic", small_batches),
                    Case(2, "associative-recall", small_batches), Case(2, "text", small_batches),
                    Case(2, "labelled-lines", small_batches)),
    [](const auto& test) {
      std::string name = test.param.task;
      std::ranges::replace(name, '-', '_');
      return fmt::format("{}_{}", name, test.param.size);
    });

/// Returns the path of a file that the tasks text and labelled-lines can read.
std::string table() {
  static const TemporaryDirectory folder;
  const auto path = folder.path() / "table.tsv";
  std::ofstream file(path);
  file << "text\tlabel\n";
  for (int line = 0; line < 200; ++line)
    file << fmt::format("{} {}\t{}\n", line * 7919, std::string(1 + line % 5, 'x'), line % 3);
  return path.string();
}

/// Returns a recipe for a small model without dropout.
Recipe small_recipe(const std::string& task) {
  auto recipe = train::find_task(task).defaults;
  recipe.training.device = "cpu";
  recipe.stack().num_layers = 1;
  recipe.stack().embed_dim = 16;
  recipe.stack().dropout = 0.0;
  recipe.training.max_steps = 200;
  recipe.training.eval_every = 100;
  recipe.training.eval_batches = 2;
  recipe.training.batch_size = 10;  // parts of 3, 3 and 4 samples
  recipe.training.gradient_accumulation_steps = 2;
  recipe.training.label_smoothing = 0.1;
  recipe.training.max_grad_norm = 0.5;
  recipe.training.threads = 1;
  if (task == "text" || task == "labelled-lines") recipe.text = {table()};
  return recipe;
}

/// Makes a training for each of `size` processes. Training starts with the weights of rank 0, so
/// the others have different ones.
std::vector<std::unique_ptr<Training>> trainings_of(int64_t size, Recipe recipe,
                                                    torch::ScalarType dtype = torch::kDouble) {
  std::vector<std::unique_ptr<Training>> trainings;
  for (int64_t rank = 0; rank < size; ++rank) {
    trainings.push_back(std::make_unique<Training>(recipe, dtype));
    ++recipe.training.seed;
  }
  return trainings;
}

/// Trains with `size` processes, and expects the results of a single process that trains with
/// `single`.
void expect_follows(int64_t size, const Recipe& recipe, const Recipe& single,
                    torch::ScalarType dtype, const Tolerance& tolerance) {
  Training expected(single, dtype);
  expected.run(train::single_process());
  const auto trainings = trainings_of(size, recipe, dtype);
  const auto errors = in_processes(size, [&](const auto& processes) {
    trainings[static_cast<std::size_t>(processes->rank())]->run(processes);
  });
  EXPECT_THAT(errors, testing::Each(""));
  for (const auto& training : trainings) expect_equal(*training, expected, tolerance);
  EXPECT_NEAR(trainings.front()->grad_norm.value.value() / expected.grad_norm.value.value(), 1.0,
              tolerance.grad_norm);
}

void expect_follows_a_single_process(int64_t size, const Recipe& recipe) {
  expect_follows(size, recipe, recipe, torch::kDouble, {});
}

TEST_P(TrainingInProcesses, FollowsASingleProcess) {
  const auto& [size, task, change] = GetParam();
  auto recipe = small_recipe(task);
  change(recipe);
  expect_follows_a_single_process(size, recipe);
}

// Training amplifies rounding errors, the more, the higher the learning rate: with 3e-3, these
// losses differ by 5e-3 in float32, and by 1e-12 in float64. AdamW makes steps of the size of the
// learning rate also with gradients that are rounding errors.
TEST(Trainer, ProcessesFollowASingleOneInFloat32) {
  for (const std::string task : {"copy", "balanced-brackets"}) {
    SCOPED_TRACE(task);
    auto recipe = small_recipe(task);
    small_batches(recipe);
    recipe.training.lr = 1e-5;
    expect_follows(2, recipe, recipe, torch::kFloat,
                   {.losses = 1e-6, .weights = 1e-5, .grad_norm = 1e-5});
  }
}

// In bfloat16, the rounding of gradients depends on the batch: the losses of a single process with
// the whole batch differ by 1e-3. With Muon, which rounds matrices to bfloat16, they differ by 1e-4
// in float32. A single process that accumulates the gradients of the same parts rounds equally.
TEST(Trainer, TwoProcessesHaveTheBitsOfTwoAccumulatedBatches) {
  using train::OptimizerKind;
  using train::Precision;
  for (const auto& [precision, optimizer] : {std::pair(Precision::fp32, OptimizerKind::adamw),
                                             std::pair(Precision::fp32, OptimizerKind::muon),
                                             std::pair(Precision::bf16, OptimizerKind::adamw),
                                             std::pair(Precision::bf16, OptimizerKind::muon),
                                             std::pair(Precision::fp16, OptimizerKind::adamw)}) {
    SCOPED_TRACE(fmt::format("{} {}", to_string(precision), to_string(optimizer)));
    auto recipe = small_recipe("copy");
    recipe.training.precision = precision;
    recipe.training.optimizer = optimizer;
    auto single = recipe;
    recipe.training.gradient_accumulation_steps = 1;
    single.training.batch_size = recipe.training.batch_size / 2;
    expect_follows(2, recipe, single, torch::kFloat,
                   {.losses = 0.0, .weights = 0.0, .grad_norm = 0.0});
  }
}

TEST(Trainer, ProcessesBalanceTheExpertsForTheWholeBatch) {
  auto recipe = small_recipe("copy");
  recipe.stack().num_layers = 2;
  recipe.stack().num_experts = 4;
  recipe.training.router_aux_loss_coef = 1.0;
  recipe.training.max_steps = 40;
  recipe.training.eval_every = 20;
  for (const bool gradient_checkpointing : {false, true}) {
    recipe.stack().gradient_checkpointing = gradient_checkpointing;
    expect_follows_a_single_process(2, recipe);
  }
}

TEST(Trainer, ResumesWithAnotherNumberOfProcesses) {
  const auto recipe = small_recipe("copy");
  Training expected(recipe);
  expected.run(train::single_process());
  train::LastCheckpoint last;
  // Stops in the middle, then at the end.
  const auto train_on = [&](int64_t size, int64_t steps) {
    const auto trainings = trainings_of(size, recipe);
    const auto before = last.checkpoint;
    const auto errors = in_processes(size, [&](const auto& processes) {
      auto& training = *trainings[static_cast<std::size_t>(processes->rank())];
      int64_t done = 0;
      train::TrainerHooks hooks{.stop_requested = [&] { return ++done == steps; }};
      if (processes->rank() > 0) return training.run(processes, hooks);
      hooks.checkpoint_sink = &last;
      training.run(processes, hooks, before);
    });
    EXPECT_THAT(errors, testing::Each(""));
    EXPECT_EQ(train::world_size_of(last.checkpoint.value()), size);
    if (steps == recipe.training.max_steps)
      for (const auto& training : trainings) expect_equal(*training, expected);
  };
  train_on(2, 70);
  EXPECT_EQ(last.checkpoint->trainer_state.step, 70);
  train_on(3, 40);
  EXPECT_EQ(last.checkpoint->trainer_state.step, 110);
  train_on(1, recipe.training.max_steps);
}

TEST(Processes, AddUpGradientsOfParametersThatOnlyEarlierBatchesUse) {
  const auto errors = in_processes(2, [](const auto& processes) {
    const std::vector parameters{torch::ones({}).requires_grad_(),
                                 torch::ones({}).requires_grad_()};
    for (int step = 0; step < 2; ++step) {
      for (auto parameter : parameters) parameter.mutable_grad().reset();
      const auto factor = static_cast<double>(1 + processes->rank());
      const auto first = factor * parameters[0];
      const auto loss = processes->rank() == 0 ? first + parameters[1] : first;
      processes->backward(loss, parameters, /*all_reduce=*/false);
      EXPECT_EQ(parameters[0].grad().template item<double>(), factor) << "of this process";
      processes->backward(factor * parameters[0], parameters, /*all_reduce=*/true);
      EXPECT_EQ(parameters[0].grad().template item<double>(), 6.0);
      ASSERT_TRUE(parameters[1].grad().defined());
      EXPECT_EQ(parameters[1].grad().template item<double>(), 1.0);
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

// The gradients of rank r are r + 1 and, before they are rounded, 1.001 (r + 1).
TEST(Processes, AddUpGradientsThatAreRoundedToBf16) {
  const auto work = [](const auto& processes) {
    const auto parameter = torch::ones({2}).requires_grad_();
    const auto factors = static_cast<double>(1 + processes->rank()) * torch::tensor({1.0, 1.001});
    processes->backward((factors * parameter).sum(), {parameter}, /*all_reduce=*/true);
    EXPECT_TRUE(parameter.grad().equal(torch::full({2}, 6.0))) << parameter.grad();
  };
  const auto errors =
      in_processes(3, work, {.timeout = std::chrono::minutes(2), .compression = Compression::bf16});
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Connect, MayBeCalledAgain) {
  const auto launch = local_launch(2);
  const auto errors = in_threads(2, [&](int64_t rank) {
    auto own = launch;
    own.rank = rank;
    const auto first = connect(own, {});
    const auto second = connect(own, {.compression = Compression::bf16});
    for (const auto& processes : {first, second}) {
      auto sum = torch::ones({});
      processes->all_reduce(sum);
      EXPECT_EQ(sum.item<double>(), 2.0);
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

/// Each sample uses a parameter of its own, and no sample uses the last parameter.
struct Separate : train::Objective {
  static constexpr int64_t kSamples = 8;
  struct Module : torch::nn::Module {
    Module() {
      for (int64_t i = 0; i <= kSamples; ++i)
        weights.push_back(
            register_parameter(fmt::format("weight{}", i), torch::eye(2, torch::kDouble)));
    }
    std::vector<torch::Tensor> weights;
  };

  torch::nn::Module& module() override { return net; }
  train::TrainingBatch training_batch(int64_t size, train::Sampler& sampler) override {
    const auto rows = sampler.rows(kSamples, size);
    return {size, size, [this, rows]() -> train::TrainingLoss {
              auto sum = torch::zeros({}, torch::kDouble);
              for (int64_t i = 0; i < rows.size(0); ++i) {
                const auto row = rows[i].item<int64_t>();
                sum = sum + (net.weights[static_cast<std::size_t>(row)] - row).square().sum();
              }
              return {sum};
            }};
  }
  train::Evaluation evaluate(const train::EvaluationOptions& /*options*/) override {
    return {.loss = 0.0, .num_targets = 1};
  }

  Module net;
};

TEST(Trainer, ProcessesMayUseOtherParametersOrNone) {
  const train::TrainingConfig config{.max_steps = 200, .batch_size = 4, .threads = 1};
  const auto trained = [&](const std::shared_ptr<train::Processes>& processes) {
    const auto objective = std::make_shared<Separate>();
    train::Trainer(objective, config, {}, nullptr, processes).run();
    return torch::stack(objective->net.weights).detach();
  };
  const auto expected = trained(train::single_process());
  EXPECT_TRUE(expected[Separate::kSamples].equal(torch::eye(2, torch::kDouble)));
  const auto errors = in_processes(2, [&](const auto& processes) {
    EXPECT_LT((trained(processes) - expected).norm().template item<double>(),
              1e-12 * expected.norm().template item<double>());
  });
  EXPECT_THAT(errors, testing::Each(""));
}

}  // namespace
}  // namespace attend::distributed
