// Training batches that background threads prepare.
#include "attend/train/batch_workers.h"

#include "attend/train/dataset_objective.h"
#include "attend/train/trainer.h"
#include "support/small_runs.h"
#include "support/stripes.h"
#include "support/throws.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <mutex>
#include <set>
#include <thread>

namespace attend::train {
namespace {

using std::chrono::milliseconds;

TEST(BatchWorkers, ReturnResultsInTheirOrderAndRethrow) {
  for (const int64_t threads : {0, 1, 3}) {
    BatchWorkers workers(threads);
    EXPECT_EQ(workers.size(), threads);
    std::vector<std::shared_future<int>> results;
    for (int i = 0; i < 9; ++i) {
      results.push_back(workers.add([i](std::size_t) {
        std::this_thread::sleep_for(milliseconds(i % 3));
        if (i == 4) throw std::domain_error("batch 4");
        return i;
      }));
    }
    for (int i = 0; i < 9; ++i) {
      if (i == 4)
        EXPECT_THAT([&] { results[4].get(); }, throws<std::domain_error>("batch 4"));
      else
        EXPECT_EQ(results[static_cast<std::size_t>(i)].get(), i);
    }
  }
}

TEST(BatchWorkers, CallFunctionsWithoutGradientsAndAutocast) {
  for (const int64_t threads : {0, 2}) {
    BatchWorkers workers(threads);
    at::autocast::set_autocast_enabled(torch::kCPU, true);
    const auto is_plain = workers.add([](std::size_t) {
      return !torch::GradMode::is_enabled() && !at::autocast::is_autocast_enabled(torch::kCPU);
    });
    EXPECT_TRUE(is_plain.get());
    EXPECT_TRUE(at::autocast::is_autocast_enabled(torch::kCPU));
    EXPECT_TRUE(torch::GradMode::is_enabled());
    at::autocast::set_autocast_enabled(torch::kCPU, false);
  }
}

TEST(BatchWorkers, TheDestructorWaitsForRunningFunctionsAndDropsOthers) {
  std::atomic<int> called = 0;
  std::shared_future<int> last;
  {
    BatchWorkers workers(2);
    std::promise<void> begun;
    for (int i = 0; i < 20; ++i) {
      last = workers.add([&, i](std::size_t) {
        if (i == 0) begun.set_value();
        std::this_thread::sleep_for(milliseconds(20));
        return ++called;
      });
    }
    begun.get_future().wait();
  }
  EXPECT_GE(called, 1);
  EXPECT_LT(called, 20);
  EXPECT_THROW(last.get(), std::runtime_error);
}

TEST(BatchWorkers, NegativeNumbersThrow) {
  EXPECT_THAT([] { BatchWorkers workers(-1); }, throws_naming<c10::ValueError>("workers", "-1"));
}

/// The dataset of `Stripes` that records which threads read it.
struct RecordedStripes : torch::data::datasets::Dataset<RecordedStripes> {
  struct Record {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    int64_t samples = 0;
  };
  torch::data::Example<> get(std::size_t index) override {
    {
      const std::lock_guard lock(record->mutex);
      record->threads.insert(std::this_thread::get_id());
      ++record->samples;
    }
    if (index == failing) throw std::domain_error("sample 7 is damaged");
    return stripes.get(index);
  }
  std::optional<std::size_t> size() const override { return stripes.size(); }

  Stripes stripes{1};
  std::size_t failing = 1000;
  std::shared_ptr<Record> record = std::make_shared<Record>();
};

/// Adds noise that is new for each batch.
torch::data::Example<> with_noise(torch::data::Example<> batch, torch::Generator generator) {
  batch.data = batch.data + 0.05 * torch::randn(batch.data.sizes(), std::move(generator));
  return batch;
}

std::shared_ptr<Objective> objective_with(const RecordedStripes& data, LoaderOptions options) {
  auto net = make_net();
  return std::make_shared<DatasetObjective<RecordedStripes>>(
      net.ptr(), data, RecordedStripes(),
      [net](const auto& x, const auto& y) mutable {
        return classification_loss(net->forward(x), y);
      },
      std::move(options));
}

TEST(DatasetObjectiveWithWorkers, TrainsTheSameWeightsForAnyNumber) {
  const auto trained = [](int64_t workers, bool has_transform, int64_t stop = 100) {
    auto config = stripes_config();
    config.gradient_accumulation_steps = 2;
    LoaderOptions options{.workers = workers};
    if (has_transform) options.transform = with_noise;
    const auto trainer = [&] {
      return Trainer(objective_with(RecordedStripes(), options), config);
    };
    auto first = trainer();
    first.run({.stop_requested = stopping_after(stop)});
    const auto saved = first.checkpoint();  // before `second` seeds the random number generators
    auto second = trainer();
    second.restore(saved);
    second.run();
    return second.checkpoint();
  };
  for (const bool has_transform : {false, true}) {
    const auto expected = trained(0, has_transform);
    for (const int64_t workers : {1, 2, 3}) {
      for (const int64_t stop : {100, 5}) {
        const auto found = trained(workers, has_transform, stop);
        EXPECT_TRUE(equal_tensors(found.weights, expected.weights)) << workers << " " << stop;
        EXPECT_TRUE(equal_tensors(found.state, expected.state)) << workers << " " << stop;
      }
    }
  }
  EXPECT_FALSE(equal_tensors(trained(0, true).weights, trained(0, false).weights));
}

TEST(DatasetObjectiveWithWorkers, ReadsInThreadsAheadOfTraining) {
  const RecordedStripes data;
  const auto objective = objective_with(data, {.workers = 2});
  const auto main = std::this_thread::get_id();
  Sampler sampler(1);
  objective->training_batch(4, sampler).loss();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const auto samples = [&] {
    const std::lock_guard lock(data.record->mutex);
    return data.record->samples;
  };
  while (samples() < 5 * 4 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(samples(), 5 * 4) << "the batch, and four ahead";
  EXPECT_EQ(data.record->threads.size(), 2);
  EXPECT_FALSE(data.record->threads.contains(main));
}

TEST(DatasetObjectiveWithWorkers, ErrorsReachTheCaller) {
  for (const int64_t workers : {0, 2}) {
    RecordedStripes data;
    data.failing = 7;
    Trainer trainer(objective_with(data, {.workers = workers}), stripes_config());
    EXPECT_THAT([&] { trainer.run(); }, throws<std::domain_error>("sample 7 is damaged"));
  }
  EXPECT_THAT([] { objective_with(RecordedStripes(), {.workers = -1}); },
              throws_naming<c10::ValueError>("workers", "-1"));
}

}  // namespace
}  // namespace attend::train
