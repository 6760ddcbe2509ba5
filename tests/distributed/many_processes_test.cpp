// A process in training with up to 4,096 processes. Each process is run alone: sums are
// those of its own values, and rank 0 is run first. c10d's FakeProcessGroup is similar, but its
// header needs Python's headers.
#include "attend/input_error.h"
#include "attend/train/dataset_objective.h"
#include "attend/train/trainer.h"
#include "train/device.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

namespace attend::distributed {
namespace {

/// A process that trains without the others. Records its calls, and what it broadcasts if it is
/// rank 0.
class AloneProcess : public train::Processes {
 public:
  /// `first` is rank 0, which has been run; null for rank 0 itself.
  AloneProcess(int64_t rank, int64_t size, const AloneProcess* first)
      : rank_(rank), size_(size), first_(first) {}

  int64_t rank() const override { return rank_; }
  int64_t world_size() const override { return size_; }
  int64_t local_world_size() const override { return local_size; }
  void all_reduce(torch::Tensor& tensor) override {
    calls.push_back(
        fmt::format("all_reduce {} {}", toString(tensor.scalar_type()), tensor.numel()));
  }
  void broadcast(torch::Tensor& tensor, int64_t /*root*/) override {
    if (first_ != nullptr) tensor.copy_(first_->broadcasts_.at(broadcasts_.size()));
    broadcasts_.push_back(tensor.clone());
    calls.push_back(fmt::format("broadcast {} {}", toString(tensor.scalar_type()), tensor.numel()));
  }
  void backward(const torch::Tensor& loss, const std::vector<torch::Tensor>& parameters,
                bool /*all_reduce*/) override {
    loss.backward();
    calls.push_back(fmt::format("backward {}", parameters.size()));
  }
  bool end_with_error(const std::string&) override { return true; }

  std::vector<std::string> calls;
  int64_t local_size = 1;

 private:
  int64_t rank_;
  int64_t size_;
  const AloneProcess* first_;
  std::vector<torch::Tensor> broadcasts_;
};

constexpr int64_t kSteps = 3;

/// A dataset that records which samples are read.
struct Counted : torch::data::datasets::Dataset<Counted> {
  Counted(int64_t samples, std::vector<std::size_t>* record) : samples(samples), record(record) {}
  torch::data::Example<> get(std::size_t index) override {
    if (record != nullptr) record->push_back(index);
    return {torch::zeros(1), torch::zeros(1)};
  }
  torch::optional<std::size_t> size() const override { return samples; }

  int64_t samples;
  std::vector<std::size_t>* record;
};

struct Net : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::ones(1));
};

/// What a process does in an epoch of `kSteps` steps.
struct Epoch {
  Epoch(int64_t rank, int64_t size, int64_t batch_size, const Epoch* first = nullptr)
      : process(std::make_shared<AloneProcess>(rank, size,
                                               first == nullptr ? nullptr : first->process.get())) {
    const auto net = std::make_shared<Net>();
    const auto loss = [net](const torch::Tensor& data, const torch::Tensor&) {
      return train::TrainingLoss{(net->weight * data).sum()};
    };
    const auto objective = std::make_shared<train::DatasetObjective<Counted>>(
        net, Counted(kSteps * batch_size, &samples), Counted(1, nullptr), loss);
    const train::TrainingConfig config{
        .max_steps = 10, .batch_size = batch_size, .warmup_steps = 5, .log_every = 1, .threads = 1};
    const std::shared_ptr<train::Optimizer> optimizer = train::make_optimizer(*net, config);
    train::Trainer trainer(objective, config, {}, optimizer, process);
    trainer.run({.stop_requested = [&] {
      rates.push_back(optimizer->param_groups().front().options().get_lr());
      return std::ssize(rates) == kSteps;
    }});
  }

  std::shared_ptr<AloneProcess> process;
  std::vector<std::size_t> samples;  // in the order in which they are read
  std::vector<double> rates;         // learning rates
};

/// Returns the samples that the process reads in a step, according to the order of a single
/// process.
std::vector<std::size_t> part_of(const std::vector<std::size_t>& order, int64_t step, int64_t rank,
                                 int64_t size, int64_t batch_size) {
  const auto batch = order.begin() + step * batch_size;
  return {batch + batch_size * rank / size, batch + batch_size * (rank + 1) / size};
}

/// Number of processes and batch size.
struct ManyProcesses : testing::TestWithParam<std::pair<int64_t, int64_t>> {};
INSTANTIATE_TEST_SUITE_P(, ManyProcesses,
                         testing::Values(std::pair(7, 10), std::pair(64, 64), std::pair(128, 300)));
// Takes minutes, since each process draws the batches of all: --gtest_also_run_disabled_tests.
INSTANTIATE_TEST_SUITE_P(DISABLED_Slow, ManyProcesses, testing::Values(std::pair(4096, 5000)));

TEST_P(ManyProcesses, ReadEachSampleOnceAnEpoch) {
  const auto [size, batch_size] = GetParam();
  const Epoch first(0, size, batch_size);
  auto all = first.samples;
  for (int64_t rank = 1; rank < size; ++rank) {
    const Epoch epoch(rank, size, batch_size, &first);
    EXPECT_LE(std::ssize(epoch.samples), kSteps * ((batch_size + size - 1) / size)) << rank;
    all.insert(all.end(), epoch.samples.begin(), epoch.samples.end());
  }
  std::vector<std::size_t> expected(static_cast<std::size_t>(kSteps * batch_size));
  std::iota(expected.begin(), expected.end(), std::size_t{0});
  std::ranges::sort(all);
  EXPECT_EQ(all, expected);
}

TEST(Trainer, ManyProcessesFollowTheScheduleAndDataOfASingleOne) {
  constexpr int64_t kBatch = 5000;
  const Epoch single(0, 1, kBatch);
  ASSERT_EQ(std::set(single.samples.begin(), single.samples.end()).size(), kSteps * kBatch);
  ASSERT_EQ(std::set(single.rates.begin(), single.rates.end()).size(), kSteps);
  for (const int64_t size : {64, 512, 4096}) {
    const Epoch first(0, size, kBatch);
    for (const auto rank : {int64_t{0}, int64_t{1}, size / 2, size - 1}) {
      const Epoch epoch(rank, size, kBatch, &first);
      std::vector<std::size_t> expected;
      for (int64_t step = 0; step < kSteps; ++step) {
        const auto part = part_of(single.samples, step, rank, size, kBatch);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      EXPECT_EQ(epoch.samples, expected) << rank << " of " << size;
      EXPECT_EQ(epoch.rates, single.rates) << rank << " of " << size;
    }
  }
}

TEST(Trainer, ManyProcessesCommunicateAsOftenAsTwo) {
  constexpr int64_t kBatch = 4096;
  const auto expected = Epoch(0, 2, kBatch).process->calls;
  for (const int64_t size : {64, 4096}) {
    const Epoch first(0, size, kBatch);
    for (const auto rank : {int64_t{0}, int64_t{1}, size - 1}) {
      const auto calls = Epoch(rank, size, kBatch, &first).process->calls;
      // The last call, for a checkpoint, collects the states of the generators of all processes.
      ASSERT_EQ(calls.size(), expected.size()) << rank << " of " << size;
      EXPECT_TRUE(std::equal(calls.begin(), calls.end() - 1, expected.begin())) << rank;
    }
  }
}

/// Draws a random number for each loss, as dropout does.
struct Noisy : train::Objective {
  torch::nn::Module& module() override { return net; }
  train::TrainingBatch training_batch(int64_t size, train::Sampler& /*sampler*/) override {
    return {size, size, [this]() -> train::TrainingLoss {
              drawn.push_back(torch::rand({}).item<float>());
              return {net.weight.sum()};
            }};
  }
  train::Evaluation evaluate(const train::EvaluationOptions& /*options*/) override {
    return {.loss = 0.0, .num_targets = 1};
  }

  Net net;
  std::vector<float> drawn;
};

TEST(Trainer, EachProcessDrawsOtherRandomNumbers) {
  const train::TrainingConfig config{.max_steps = kSteps, .batch_size = 4, .threads = 1};
  std::shared_ptr<AloneProcess> first;
  std::set<float> all;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const auto process = std::make_shared<AloneProcess>(rank, 4, first.get());
    if (rank == 0) first = process;
    const auto objective = std::make_shared<Noisy>();
    train::Trainer(objective, config, {}, nullptr, process).run();
    EXPECT_EQ(std::ssize(objective->drawn), kSteps);
    all.insert(objective->drawn.begin(), objective->drawn.end());
  }
  EXPECT_EQ(std::ssize(all), 4 * kSteps);
}

/// Returns the number of threads with which one of `local_size` processes of a machine trains, if
/// LibTorch has 3 threads and OMP_NUM_THREADS has this value; null: not set.
int64_t threads_of(int64_t local_size, const char* variable) {
  const train::NumThreadsGuard guard(3);
  const char* before = std::getenv("OMP_NUM_THREADS");
  const std::optional<std::string> saved = before == nullptr ? std::nullopt : std::optional(before);
  const auto set = [](const char* value) {
    value == nullptr ? unsetenv("OMP_NUM_THREADS") : setenv("OMP_NUM_THREADS", value, 1);
  };
  set(variable);
  const auto process = std::make_shared<AloneProcess>(0, 2, nullptr);
  process->local_size = local_size;
  train::Trainer trainer(std::make_shared<Noisy>(), {.max_steps = 1, .batch_size = 2}, {}, nullptr,
                         process);
  trainer.run();
  set(saved ? saved->c_str() : nullptr);
  return trainer.state().threads;
}

TEST(Trainer, ProcessesOfAMachineDoNotShareANumberedGpu) {
  const auto process = std::make_shared<AloneProcess>(0, 2, nullptr);
  const auto make = [&] {
    train::Trainer(std::make_shared<Noisy>(), {.batch_size = 2, .device = "cuda:1"}, {}, nullptr,
                   process);
  };
  EXPECT_NO_THROW(make());  // on two machines
  process->local_size = 2;
  EXPECT_THAT(make, testing::ThrowsMessage<InputError>(testing::AllOf(
                        testing::HasSubstr("device"), testing::HasSubstr("cuda:1"))));
}

TEST(Trainer, ProcessesOfAMachineShareItsCores) {
  EXPECT_EQ(threads_of(100000, nullptr), 1);
  EXPECT_EQ(threads_of(1, nullptr), 3) << "each process has a machine";
  const int64_t cores = std::thread::hardware_concurrency();
  EXPECT_EQ(threads_of(2, nullptr), std::clamp<int64_t>(cores / 2, 1, 3));
  EXPECT_EQ(threads_of(100000, "3"), 3) << "the launcher has divided the cores";
}

}  // namespace
}  // namespace attend::distributed
