// Decisions that several processes, which are threads here, make together, and the buffers and data
// that they have in common.
#include "attend/train/dataset_objective.h"
#include "attend/train/trainer.h"
#include "attend/train/training_run.h"
#include "support/in_threads.h"
#include "support/small_runs.h"
#include "support/stripes.h"
#include "support/temporary_directory.h"
#include "train/processes.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <filesystem>

namespace attend::distributed {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

/// A module with a buffer to which each process adds another number in each step, like the
/// statistics of a batch norm. The gradient of the weight is the buffer, which is also the loss of
/// a validation batch.
struct Buffered : train::Objective {
  struct Module : torch::nn::Module {
    torch::Tensor weight = register_parameter("weight", torch::ones(1));
    torch::Tensor buffer = register_buffer("buffer", torch::zeros(1));
  };

  explicit Buffered(double added) : added(added) {}
  torch::nn::Module& module() override { return net; }
  train::TrainingBatch training_batch(int64_t size, train::Sampler& /*sampler*/) override {
    return {size, size, [this]() -> train::TrainingLoss {
              net.buffer.add_(added);
              return {(net.weight * net.buffer.clone()).sum()};
            }};
  }
  train::Evaluation evaluate(const train::EvaluationOptions& options) override {
    return train::evaluate_in_batches(4, options, [this](int64_t) -> train::Evaluation {
      return {.loss = net.buffer.item<double>(), .num_targets = 1};
    });
  }

  Module net;
  double added;
};

train::TrainingConfig config_with(int64_t steps) {
  return {.max_steps = steps, .batch_size = 3, .eval_every = 100, .threads = 1};
}

TEST(Trainer, ProcessesEvaluateWithTheBuffersOfRank0) {
  const auto errors = in_processes(3, [](const auto& processes) {
    const auto objective = std::make_shared<Buffered>(static_cast<double>(1 + processes->rank()));
    train::Trainer trainer(objective, config_with(1), {}, nullptr, processes);
    EXPECT_EQ(trainer.run().state.last->loss, 1.0);
  });
  EXPECT_THAT(errors, Each(""));
}

/// Trains `Buffered` with two processes until `steps`, and returns the last checkpoint.
train::Checkpoint train_with_buffers(int64_t steps, const train::Checkpoint* start = nullptr) {
  train::LastCheckpoint last;
  const auto errors = in_processes(2, [&](const auto& processes) {
    const auto objective = std::make_shared<Buffered>(static_cast<double>(1 + processes->rank()));
    train::Trainer trainer(objective, config_with(8), {}, nullptr, processes);
    const bool is_first = processes->rank() == 0;
    if (is_first && start != nullptr) trainer.restore(*start);
    trainer.run({.checkpoint_sink = is_first ? &last : nullptr,
                 .stop_requested = [&] { return trainer.state().step == steps; }});
  });
  EXPECT_THAT(errors, Each(""));
  return last.checkpoint.value();
}

TEST(Trainer, ProcessesWithOtherBuffersResumeToTheSameBits) {
  const auto expected = train_with_buffers(8);
  const auto stopped = train_with_buffers(3);
  EXPECT_EQ(stopped.trainer_state.step, 3);
  const auto resumed = train_with_buffers(8, &stopped);
  EXPECT_EQ(resumed.trainer_state.step, 8);
  EXPECT_TRUE(train::equal_tensors(resumed.weights, expected.weights));
}

TEST(Trainer, ABufferThatIsNotFiniteStopsAllProcesses) {
  const auto work = [](const auto& processes) {
    const auto objective = std::make_shared<Buffered>(processes->rank() == 1 ? NAN : 1.0);
    auto config = config_with(4);
    config.on_nonfinite = train::OnNonFinite::skip;
    train::Trainer(objective, config, {}, nullptr, processes).run();
  };
  const auto errors = in_processes(2, work, {.timeout = std::chrono::seconds(20)});
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("step 1"), HasSubstr("weights"))));
}

TEST(Trainer, ProcessesStopEarlyTogether) {
  const auto errors = in_processes(3, [](const auto& processes) {
    auto config = config_with(20);
    config.eval_every = 2;
    config.patience = 2;
    // The loss of an evaluation is 2, 4, 6: only the first is an improvement.
    const auto objective = std::make_shared<Buffered>(1.0);
    const auto result = train::Trainer(objective, config, {}, nullptr, processes).run();
    EXPECT_EQ(result.stop_reason, train::StopReason::patience);
    EXPECT_EQ(result.state.step, 6);
  });
  EXPECT_THAT(errors, Each(""));
}

/// Returns the errors of two processes that freeze the parameters of these numbers before the
/// second step, by rank; -1: none.
std::vector<std::string> freeze(const std::array<int64_t, 2>& parameters) {
  return in_processes(2, [&](const auto& processes) {
    const auto objective = train::make_objective(train::make_net(), 1);
    train::Trainer trainer(objective, train::stripes_config(), {}, nullptr, processes);
    trainer.run({.stop_requested = [&] {
      const auto number = parameters.at(static_cast<std::size_t>(processes->rank()));
      if (number >= 0)
        objective->module().parameters().at(static_cast<std::size_t>(number)).requires_grad_(false);
      return trainer.state().step == 3;
    }});
  });
}

TEST(Trainer, ParametersAreFrozenInAllProcesses) {
  EXPECT_THAT(freeze({0, 0}), Each(""));
  EXPECT_THAT(freeze({0, -1}), Each(AllOf(HasSubstr("1 of 2"), HasSubstr("step 2"))));
  EXPECT_THAT(freeze({0, 1}), Each(AllOf(HasSubstr("rank 1"), HasSubstr("`10"), HasSubstr("`01"))));
}

TEST(TrainingRun, ProcessesWithOtherModesAreRefused) {
  const TemporaryDirectory folder;
  using enum train::RunMode;
  for (const auto& modes : std::vector<std::array<train::RunMode, 2>>{
           {begin, resume}, {resume, begin}, {begin, begin_or_resume}, {begin_or_resume, begin}}) {
    const auto errors = in_processes(2, [&](const auto& processes) {
      train::TrainingRun(
          folder / "run", train::make_objective(train::make_net(), 1), train::stripes_config(),
          {.mode = modes.at(static_cast<std::size_t>(processes->rank())), .processes = processes});
    });
    EXPECT_THAT(errors, Each(AllOf(errors[0], HasSubstr("rank 1"),
                                   HasSubstr(std::string(to_string(modes[0]))),
                                   HasSubstr(std::string(to_string(modes[1]))))));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

TEST(Broadcast, OfTheTrainersStateKeepsTheConfusionMatrixOfRank0) {
  train::TrainerState state;
  state.last = train::Evaluation{.loss = 1.0, .confusion_matrix = torch::eye(2)};
  const auto errors = in_processes(2, [&](const auto& processes) {
    const auto found = train::broadcast(*processes, state);
    EXPECT_EQ(found.last->loss, 1.0);
    EXPECT_EQ(found.last->confusion_matrix.defined(), processes->rank() == 0);
  });
  EXPECT_THAT(errors, Each(""));
}

/// Returns the errors of two processes that train on Stripes of these seeds in the run directory.
std::vector<std::string> train_on(const std::vector<uint64_t>& seeds,
                                  const std::filesystem::path& directory) {
  return in_processes(2, [&](const auto& processes) {
    const auto objective = train::make_objective(
        train::make_net(), seeds.at(static_cast<std::size_t>(processes->rank())));
    train::TrainingRun run(directory, objective, train::stripes_config(),
                           {.mode = train::RunMode::begin, .processes = processes});
    run.finish(run.train());
  });
}

TEST(TrainingRun, ProcessesWithOtherDatasetsAreRefused) {
  const TemporaryDirectory folder;
  const auto errors = train_on({1, 3}, folder / "run");
  EXPECT_THAT(errors, Each(AllOf(errors[0], HasSubstr("rank 1"), HasSubstr("samples"))));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  EXPECT_THAT(train_on({1, 1}, folder / "run"), Each(""));
}

TEST(TrainingRun, ProcessesWithOtherOptionsAreRefused) {
  const TemporaryDirectory folder;
  const auto errors = in_processes(2, [&](const auto& processes) {
    train::TrainingRun(folder / "run", train::make_objective(train::make_net()),
                       train::stripes_config(),
                       {.mode = train::RunMode::begin,
                        .processes = processes,
                        .shard_optimizer = processes->rank() == 1});
  });
  EXPECT_THAT(errors, Each(AllOf(errors[0], HasSubstr("rank 1"), HasSubstr("shard_optimizer"))));
}

}  // namespace
}  // namespace attend::distributed
