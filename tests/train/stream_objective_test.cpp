// Training on examples that come one after the other.
#include "attend/train/stream_objective.h"

#include "attend/input_error.h"
#include "attend/train/loss.h"
#include "attend/train/trainer.h"
#include "support/small_runs.h"
#include "support/stripes.h"
#include "support/throws.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

namespace attend::train {
namespace {

using testing::ElementsAre;
using Sample = torch::data::Example<>;

Sample example_of(int64_t number) {
  return {torch::full({1}, static_cast<double>(number)), torch::tensor({0.0})};
}

/// A stream of `length` examples with the numbers 100 * pass, 100 * pass + 1, ...
StreamObjective::OpenStream numbers(int64_t length) {
  return [length](int64_t pass) -> ExampleStream {
    return [=, i = int64_t{0}]() mutable -> std::optional<Sample> {
      if (i == length) return std::nullopt;
      return example_of(100 * pass + i++);
    };
  };
}

/// An objective that records the numbers of its batches.
struct Recorded {
  explicit Recorded(StreamObjective::OpenStream open, LoaderOptions options = {})
      : objective(std::make_shared<StreamObjective>(
            net.ptr(), std::move(open), std::vector<Sample>{example_of(1), example_of(2)},
            [this](const torch::Tensor& x, const torch::Tensor& y) -> TrainingLoss {
              for (int64_t i = 0; i < x.numel(); ++i)
                seen.push_back(std::lround(x.flatten()[i].item<double>()));
              return {(net(0.01 * x) - y).square().sum()};
            },
            std::move(options))) {}

  std::vector<int64_t> next(int64_t size) {
    seen.clear();
    objective->training_batch(size, sampler).loss();
    return seen;
  }

  torch::nn::Linear net{1, 1};
  std::vector<int64_t> seen;
  std::shared_ptr<StreamObjective> objective;
  Sampler sampler{1};
};

TEST(StreamObjective, ReadsInOrderAndFillsTheLastBatchFromTheNextPass) {
  for (const int64_t workers : {0, 1, 3}) {
    Recorded recorded(numbers(5), {.workers = workers});
    EXPECT_THAT(recorded.next(3), ElementsAre(0, 1, 2)) << workers;
    EXPECT_THAT(recorded.next(3), ElementsAre(3, 4, 100)) << workers;
    EXPECT_THAT(recorded.next(2), ElementsAre(101, 102)) << workers << ": another size";
    EXPECT_THAT(recorded.next(7), ElementsAre(103, 104, 200, 201, 202, 203, 204)) << workers;
    EXPECT_THAT(recorded.next(1), ElementsAre(300)) << workers;
  }
}

TEST(StreamObjective, ContinuesAfterItsState) {
  for (const int64_t workers : {0, 2}) {
    for (const int64_t batches : {0, 1, 2, 5}) {
      Recorded first(numbers(5), {.workers = workers});
      for (int64_t i = 0; i < batches; ++i) first.next(3);
      const auto state = first.objective->state();
      Recorded second(numbers(5), {.workers = workers});
      second.next(2);  // has read something before
      second.objective->load_state(state);
      for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(second.next(3), first.next(3)) << batches;
    }
  }
}

TEST(StreamObjective, AShorterStreamThanBeforeTheInterruptionThrows) {
  Recorded first(numbers(8));
  first.next(6);
  Recorded second(numbers(5));
  second.objective->load_state(first.objective->state());
  EXPECT_THAT([&] { second.next(3); }, throws_naming<c10::ValueError>("5", "6"));
  EXPECT_THAT([&] { second.objective->load_state({}); }, throws_naming<InputError>("pass"));
}

TEST(StreamObjective, ErrorsOfTheStreamReachTheCaller) {
  for (const int64_t workers : {0, 2}) {
    Recorded recorded(
        [](int64_t) -> ExampleStream {
          return [i = 0]() mutable -> std::optional<Sample> {
            if (++i == 6) throw std::domain_error("line 6");
            return example_of(i);
          };
        },
        {.workers = workers});
    EXPECT_THAT(recorded.next(3), ElementsAre(1, 2, 3));
    for (int again = 0; again < 2; ++again)  // no example is lost without an error
      EXPECT_THAT([&] { recorded.next(3); }, throws<std::domain_error>("line 6"));
  }
}

TEST(StreamObjective, EmptyStreamsAndNullThrow) {
  Recorded empty(numbers(0));
  EXPECT_THAT([&] { empty.next(1); }, throws_naming<c10::ValueError>("pass 0"));
  Recorded null([](int64_t) { return ExampleStream(); });
  EXPECT_THAT([&] { null.next(1); }, throws_naming<c10::ValueError>("pass 0", "null"));
  const auto loss = [](const torch::Tensor&, const torch::Tensor&) { return TrainingLoss{}; };
  const torch::nn::Linear net(1, 1);
  EXPECT_THAT([&] { StreamObjective(net.ptr(), nullptr, {example_of(1)}, loss); },
              throws_naming<c10::ValueError>("stream"));
  EXPECT_THAT([&] { StreamObjective(net.ptr(), numbers(1), {}, loss); },
              throws_naming<c10::ValueError>("validation"));
}

TEST(StreamObjective, IsDestroyedWhileItReadsAnEndlessStream) {
  for (int i = 0; i < 20; ++i) {
    Recorded recorded(numbers(int64_t{1} << 40), {.workers = 3});
    if (i % 2 == 0) recorded.next(2);
  }
}

/// The rank of a process, without others: for the parts of batches that it trains on.
struct OneOfTwo : Processes {
  explicit OneOfTwo(int64_t rank) : own(rank) {}
  int64_t rank() const override { return own; }
  int64_t world_size() const override { return 2; }
  int64_t local_world_size() const override { return 2; }
  void all_reduce(torch::Tensor&) override {}
  void broadcast(torch::Tensor&, int64_t) override {}
  void backward(const torch::Tensor&, const std::vector<torch::Tensor>&, bool) override {}
  bool end_with_error(const std::string&) override { return true; }
  int64_t own;
};

TEST(StreamObjective, EachProcessReadsItsPartsOfTheBatches) {
  for (const int64_t workers : {0, 2}) {
    for (const int64_t rank : {0, 1}) {
      Recorded recorded(numbers(7), {.workers = workers});
      recorded.objective->set_processes(std::make_shared<OneOfTwo>(rank));
      std::vector<int64_t> own;
      for (int step = 0; step < 3; ++step) {
        for (const int64_t part : {0, 1}) {
          const auto batch = recorded.objective->training_batch(2 + part, recorded.sampler);
          recorded.seen.clear();
          if (part == rank) batch.loss();
          own.insert(own.end(), recorded.seen.begin(), recorded.seen.end());
        }
      }
      if (rank == 0)
        EXPECT_THAT(own, ElementsAre(0, 1, 5, 6, 103, 104));
      else
        EXPECT_THAT(own, ElementsAre(2, 3, 4, 100, 101, 102, 105, 106, 200));
    }
  }
}

TEST(StreamObjective, TrainingDoesNotDependOnWorkersAndResumesBitForBit) {
  const auto open = [](int64_t pass) -> ExampleStream {
    const auto data = std::make_shared<Stripes>(1);
    return [=, i = std::size_t{0}]() mutable -> std::optional<Sample> {
      if (i == 50) return std::nullopt;
      return data->get((i++ + static_cast<std::size_t>(pass)) % 50);
    };
  };
  Stripes other(2);
  std::vector<Sample> validation;
  for (std::size_t i = 0; i < 50; ++i) validation.push_back(other.get(i));
  const auto trained = [&](int64_t workers, int64_t stop) {
    const auto trainer = [&] {
      auto net = make_net();
      auto config = stripes_config(30);
      config.threads = 1;
      const auto noise = [](Sample batch, torch::Generator generator) {
        batch.data = batch.data + 0.05 * torch::randn(batch.data.sizes(), std::move(generator));
        return batch;
      };
      return Trainer(std::make_shared<StreamObjective>(
                         net.ptr(), open, validation,
                         [net](const auto& x, const auto& y) mutable {
                           return classification_loss(net->forward(x), y);
                         },
                         LoaderOptions{.workers = workers, .transform = noise}),
                     config);
    };
    auto first = trainer();
    first.run({.stop_requested = stopping_after(stop)});
    const auto saved = first.checkpoint();
    auto second = trainer();
    second.restore(saved);
    const auto result = second.run();
    EXPECT_EQ(result.state.best->num_targets, 50);
    return second.checkpoint();
  };
  const auto expected = trained(0, 100);
  for (const int64_t workers : {0, 1, 2}) {
    for (const int64_t stop : {100, 7, 20}) {
      const auto found = trained(workers, stop);
      EXPECT_TRUE(equal_tensors(found.weights, expected.weights)) << workers << " " << stop;
      EXPECT_TRUE(equal_tensors(found.state, expected.state)) << workers << " " << stop;
    }
  }
}

}  // namespace
}  // namespace attend::train
