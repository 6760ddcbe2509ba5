#include "attend/train/background_checkpoint_sink.h"

#include "attend/train/background_thread.h"

namespace attend::train {
namespace {

// A new call of `save` or `save_best` waits until at most this many earlier calls are pending or
// running.
constexpr std::size_t kMaxPending = 1;

}  // namespace

BackgroundCheckpointSink::BackgroundCheckpointSink(std::shared_ptr<CheckpointSink> sink)
    : sink_(std::move(sink)), thread_(std::make_unique<BackgroundThread>()) {}

BackgroundCheckpointSink::~BackgroundCheckpointSink() = default;

void BackgroundCheckpointSink::save_best(const std::map<std::string, torch::Tensor>& weights) {
  thread_->wait_for_at_most(kMaxPending);
  thread_->rethrow();
  thread_->add([sink = sink_, weights] { sink->save_best(weights); });
}

void BackgroundCheckpointSink::save(const Checkpoint& checkpoint) {
  thread_->wait_for_at_most(kMaxPending);
  thread_->rethrow();
  thread_->add([sink = sink_, checkpoint] { sink->save(checkpoint); });
}

void BackgroundCheckpointSink::check() {
  thread_->rethrow();
}

void BackgroundCheckpointSink::finish() {
  thread_->wait_for_at_most(0);
  thread_->rethrow();
}

std::string BackgroundCheckpointSink::latest_path() const {
  thread_->wait_for_at_most(0);
  return sink_->latest_path();
}

}  // namespace attend::train
