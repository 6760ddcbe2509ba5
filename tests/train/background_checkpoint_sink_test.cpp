#include "attend/train/background.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <future>
#include <thread>

namespace attend::train {
namespace {

using testing::ElementsAre;

/// Records the calls of `save_best` and `save`. Each of these calls first waits for `gate`. Saving
/// the checkpoint of step `fails_at` throws.
struct SlowDisk : CheckpointSink {
  void save_best(const std::map<std::string, torch::Tensor>& weights) override {
    gate.wait();
    calls.push_back("best " + std::to_string(weights.at("weight").item<int64_t>()));
  }
  void save(const Checkpoint& checkpoint) override {
    gate.wait();
    const auto step = std::to_string(checkpoint.trainer_state.step);
    if (checkpoint.trainer_state.step == fails_at) throw std::runtime_error("no space at " + step);
    calls.push_back("step " + step);
  }
  std::string latest_path() const override { return calls.back(); }

  std::promise<void> opens;
  std::shared_future<void> gate = opens.get_future().share();
  int64_t fails_at = 0;
  std::vector<std::string> calls;
};

Checkpoint checkpoint_of_step(int64_t step) {
  Checkpoint checkpoint;
  checkpoint.trainer_state.step = step;
  return checkpoint;
}

TEST(BackgroundCheckpointSink, SavesInOrderWithoutWaiting) {
  const auto disk = std::make_shared<SlowDisk>();
  BackgroundCheckpointSink sink(disk);
  sink.save_best({{"weight", torch::tensor(1)}});
  sink.save(checkpoint_of_step(1));  // returns although save_best is still waiting
  disk->opens.set_value();
  sink.save_best({{"weight", torch::tensor(2)}});
  sink.save(checkpoint_of_step(2));
  EXPECT_EQ(sink.latest_path(), "step 2") << "latest_path must wait for pending checkpoints";
  sink.finish();
  EXPECT_THAT(disk->calls, ElementsAre("best 1", "step 1", "best 2", "step 2"));
}

TEST(BackgroundCheckpointSink, DestructorSavesWhatIsPending) {
  const auto disk = std::make_shared<SlowDisk>();
  disk->opens.set_value();
  {
    BackgroundCheckpointSink sink(disk);
    sink.save(checkpoint_of_step(1));
    sink.save(checkpoint_of_step(2));
  }
  EXPECT_THAT(disk->calls, ElementsAre("step 1", "step 2"));
}

TEST(BackgroundCheckpointSink, AtMostTwoCallsArePending) {
  const auto disk = std::make_shared<SlowDisk>();
  BackgroundCheckpointSink sink(disk);
  sink.save(checkpoint_of_step(1));
  sink.save(checkpoint_of_step(2));
  auto third = std::async(std::launch::async, [&] { sink.save(checkpoint_of_step(3)); });
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  disk->opens.set_value();
  third.get();
  sink.finish();
  EXPECT_THAT(disk->calls, ElementsAre("step 1", "step 2", "step 3"));
}

TEST(BackgroundCheckpointSink, RethrowsAFailure) {
  const auto disk = std::make_shared<SlowDisk>();
  disk->opens.set_value();
  disk->fails_at = 2;
  BackgroundCheckpointSink sink(disk);
  sink.save(checkpoint_of_step(1));
  sink.finish();
  EXPECT_NO_THROW(sink.check());
  sink.save(checkpoint_of_step(2));
  EXPECT_THAT([&] { sink.finish(); }, throws<std::runtime_error>("no space at 2"));
  EXPECT_THAT([&] { sink.check(); }, throws<std::runtime_error>("no space at 2"));
  EXPECT_THAT([&] { sink.save(checkpoint_of_step(3)); },
              throws<std::runtime_error>("no space at 2"));
  EXPECT_THAT(disk->calls, ElementsAre("step 1"));
}

}  // namespace
}  // namespace attend::train
