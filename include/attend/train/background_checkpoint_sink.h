#pragma once

#include "attend/api.h"
#include "attend/train/trainer.h"

#include <map>
#include <memory>
#include <string>

namespace attend::train {

class BackgroundThread;

/// Saves checkpoints with another sink on a background thread, so that training does not wait for
/// the disk. `save` and `save_best` return before the files are written. If the files of two
/// earlier calls are not written yet, a third call waits for the files of the first call.
///
/// If the other sink throws, every later call except `latest_path` rethrows the exception.
///
///     BackgroundCheckpointSink sink(std::make_shared<MySink>());
///     trainer.run({.checkpoint_sink = &sink});
class ATTEND_API BackgroundCheckpointSink : public CheckpointSink {
 public:
  /// Throws std::system_error if the thread cannot be started.
  explicit BackgroundCheckpointSink(std::shared_ptr<CheckpointSink> sink);
  /// Waits until all checkpoints are saved.
  ~BackgroundCheckpointSink() override;

  void save_best(const std::map<std::string, torch::Tensor>& weights) override;
  void save(const Checkpoint& checkpoint) override;
  void check() override;
  void finish() override;
  /// Waits until all checkpoints are saved, then returns the path of the latest checkpoint.
  std::string latest_path() const override;

 private:
  std::shared_ptr<CheckpointSink> sink_;
  std::unique_ptr<BackgroundThread> thread_;
};

}  // namespace attend::train
