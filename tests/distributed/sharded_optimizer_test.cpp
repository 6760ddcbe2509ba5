// The state of the optimizer, distributed over several processes, which are threads here.
#include "attend/train/sharded_optimizer.h"

#include "attend/train/task_objective.h"
#include "attend/train/trainer.h"
#include "attend/train/training_setup.h"
#include "support/in_threads.h"
#include "support/small_runs.h"
#include "support/stripes.h"

#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include <mutex>
#include <set>

namespace attend::distributed {
namespace {

using State = std::map<std::string, torch::Tensor>;
using train::OptimizerKind;

train::Recipe small_recipe_with(OptimizerKind optimizer) {
  auto recipe = train::small_recipe("copy", /*steps=*/12);
  recipe.stack().dropout = 0.0;
  recipe.training.optimizer = optimizer;
  recipe.training.eval_every = 6;
  recipe.training.eval_batches = 1;
  recipe.training.checkpoint_every = 5;
  recipe.training.batch_size = 7;
  recipe.training.gradient_accumulation_steps = 2;
  recipe.training.max_grad_norm = 0.5;
  return recipe;
}

/// What rank 0 has after training.
struct Trained {
  train::Checkpoint saved;    ///< the last one that the trainer has passed to its sink
  train::Checkpoint current;  ///< of the trainer after `run`
};

/// Trains with `size` processes until `stop`, from `start` if it is given. The first parameter is
/// frozen and has no state.
Trained train_in_processes(int64_t size, const train::Recipe& recipe, bool shard,
                           int64_t stop = 1000, const train::Checkpoint* start = nullptr) {
  // Not in the threads, which share LibTorch's generators.
  std::vector<train::TrainingSetup> setups;
  while (std::ssize(setups) < size) setups.push_back(train::make_training_setup(recipe));
  Trained trained;
  const auto work = [&](const auto& processes) {
    const auto& setup = setups[static_cast<std::size_t>(processes->rank())];
    module_of(setup.model).parameters().front().set_requires_grad(false);
    train::LastCheckpoint last;
    train::Trainer trainer(
        std::make_shared<train::TaskObjective>(setup.model, setup.task, recipe.training),
        recipe.training, {}, nullptr, processes, shard);
    const bool is_first = processes->rank() == 0;
    if (is_first && start != nullptr) trainer.restore(*start);
    trainer.run({.checkpoint_sink = is_first ? &last : nullptr,
                 .stop_requested = [&] { return trainer.state().step == stop; }});
    if (is_first) trained = {last.checkpoint.value(), trainer.checkpoint()};
  };
  EXPECT_THAT(in_processes(size, work), testing::Each(""));
  for (auto* state : {&trained.saved.state, &trained.current.state})
    std::erase_if(*state, [](const auto& item) { return item.first.starts_with("random."); });
  return trained;
}

void expect_same_bits(const State& found, const State& expected) {
  std::set<std::string> names, expected_names;
  for (const auto& item : found) names.insert(item.first);
  for (const auto& item : expected) expected_names.insert(item.first);
  EXPECT_EQ(names, expected_names);
  for (const auto& [name, tensor] : expected) {
    if (!names.contains(name)) continue;
    EXPECT_TRUE(found.at(name).equal(tensor)) << name;
  }
}

void expect_same_bits(const train::Checkpoint& found, const train::Checkpoint& expected) {
  expect_same_bits(found.weights, expected.weights);
  expect_same_bits(found.state, expected.state);
}

struct ShardedOptimizer : testing::TestWithParam<OptimizerKind> {};
INSTANTIATE_TEST_SUITE_P(, ShardedOptimizer,
                         testing::Values(OptimizerKind::adamw, OptimizerKind::muon));

TEST_P(ShardedOptimizer, GivesTheBitsOfAWholeOne) {
  const auto recipe = small_recipe_with(GetParam());
  for (const int64_t size : {2, 3}) {
    const auto expected = train_in_processes(size, recipe, /*shard=*/false);
    const auto found = train_in_processes(size, recipe, /*shard=*/true);
    EXPECT_EQ(found.saved.trainer_state.step, recipe.training.max_steps);
    expect_same_bits(found.saved, expected.saved);
  }
}

TEST_P(ShardedOptimizer, ResumesWithAndWithoutShards) {
  const auto recipe = small_recipe_with(GetParam());
  const auto expected = train_in_processes(2, recipe, /*shard=*/false).saved;
  const auto half = train_in_processes(2, recipe, /*shard=*/true, 5).saved;
  EXPECT_EQ(half.trainer_state.step, 5);
  for (const bool shard : {true, false})
    expect_same_bits(train_in_processes(2, recipe, shard, 1000, &half).saved, expected);
  const auto others = train_in_processes(3, recipe, /*shard=*/true, 1000, &half).saved;
  EXPECT_EQ(others.trainer_state.step, recipe.training.max_steps);
}

TEST_P(ShardedOptimizer, Rank0HasTheWholeStateAfterTraining) {
  const auto trained = train_in_processes(2, small_recipe_with(GetParam()), /*shard=*/true);
  expect_same_bits(trained.current, trained.saved);
}

std::size_t bytes_of(const State& state) {
  std::size_t bytes = 0;
  for (const auto& item : state) bytes += item.second.nbytes();
  return bytes;
}

TEST_P(ShardedOptimizer, EachProcessKeepsAPartOfTheState) {
  auto recipe = small_recipe_with(GetParam());
  recipe.stack().num_layers = 4;
  constexpr int64_t kSize = 3;
  const auto setup = train::make_training_setup(recipe);
  State whole, all;
  std::vector<std::size_t> bytes;
  std::mutex mutex;
  const auto errors = in_processes(kSize, [&](const auto& processes) {
    auto count = torch::ones({});
    processes->all_reduce(count);  // returns when all are connected
    train::ShardedOptimizer optimizer(
        train::make_optimizer(module_of(setup.model), recipe.training), processes);
    const auto before = optimizer.named_state();
    optimizer.distribute();
    EXPECT_LT(bytes_of(optimizer.named_state()), bytes_of(before));
    optimizer.step();
    const auto own = optimizer.named_state();
    const std::lock_guard lock(mutex);
    whole = before;
    bytes.push_back(bytes_of(own));
    for (const auto& [name, tensor] : own)
      EXPECT_TRUE(all.emplace(name, tensor.clone()).second) << name << " is in two processes";
  });
  EXPECT_THAT(errors, testing::Each(""));
  expect_same_bits(all, whole);
  EXPECT_THAT(bytes, testing::Each(testing::Lt(bytes_of(all) * 4 / 10)));
}

/// A module whose parameters have different dtypes, an odd number of elements, and strides.
struct Uneven : torch::nn::Module {
  torch::Tensor half = register_parameter("half", torch::ones({3}, torch::kBFloat16));
  torch::Tensor whole = register_parameter("whole", torch::ones({5, 3}).t());
  torch::Tensor exact = register_parameter("exact", torch::ones({1}, torch::kDouble));
  torch::Tensor empty = register_parameter("empty", torch::ones({0, 2}));
  torch::Tensor unused = register_parameter("unused", torch::ones({2}));
};

TEST_P(ShardedOptimizer, UpdatesParametersOfEveryKind) {
  const auto train = [&](const std::shared_ptr<train::Processes>& processes) {
    Uneven module;
    std::shared_ptr<train::Optimizer> optimizer =
        train::make_optimizer(module, {.lr = 0.1, .optimizer = GetParam()});
    if (processes) optimizer = std::make_shared<train::ShardedOptimizer>(optimizer, processes);
    for (int step = 1; step < 4; ++step) {
      optimizer->zero_grad();
      auto loss = module.empty.sum().to(torch::kDouble);
      for (const auto& parameter : {module.half, module.whole, module.exact})
        loss = loss + (parameter.to(torch::kDouble) * step).square().sum();
      loss.backward();
      optimizer->step();
    }
    State state;
    for (const auto& parameter : module.named_parameters())
      state.emplace(parameter.key(), parameter.value().detach());
    return state;
  };
  const auto expected = train(nullptr);
  const auto errors =
      in_processes(2, [&](const auto& processes) { expect_same_bits(train(processes), expected); });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Trainer, TakesAShardedOptimizerAsItIs) {
  const auto errors = in_processes(2, [](const auto& processes) {
    const auto objective = train::make_objective(train::make_net(), 1);
    const auto config = train::stripes_config();
    auto sharded = std::make_shared<train::ShardedOptimizer>(
        train::make_optimizer(objective->module(), config), processes);
    train::Trainer(objective, config, {}, sharded, processes, /*shard_optimizer=*/true).run();
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Trainer, DistributesTheStateOfItsOwnOptimizersOnly) {
  const auto recipe = small_recipe_with(OptimizerKind::adamw);
  const auto setup = train::make_training_setup(recipe);
  const auto work = [&](const auto& processes, bool shard) {
    auto count = torch::ones({});
    processes->all_reduce(count);  // returns when all are connected
    const auto objective =
        std::make_shared<train::TaskObjective>(setup.model, setup.task, recipe.training);
    const auto sgd = std::make_shared<torch::optim::SGD>(module_of(setup.model).parameters(),
                                                         torch::optim::SGDOptions(0.1));
    train::Trainer(objective, recipe.training, {}, sgd, processes, shard);
  };
  EXPECT_THAT(in_processes(2, [&](const auto& processes) { work(processes, true); }),
              testing::Each(testing::AllOf(testing::HasSubstr("shard_optimizer"),
                                           testing::HasSubstr("torch::optim::SGD"))));
  EXPECT_THAT(in_processes(2, [&](const auto& processes) { work(processes, false); }),
              testing::Each(""));
  EXPECT_NO_THROW(work(train::single_process(), true));
}

}  // namespace
}  // namespace attend::distributed
