#pragma once

#include "attend/api.h"
#include "attend/train/observer.h"
#include "attend/train/trainer.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace attend::train {

/// Runs functions in order on a separate thread that receives no signals. Stores the first
/// exception of a function for `rethrow` and continues with the next function.
///
///     BackgroundThread thread;
///     thread.add([=] { save_safetensors(path, {.tensors = tensors, .metadata = {}}); });
class ATTEND_API BackgroundThread {
 public:
  /// Starts the thread. The destructor waits for at most `timeout`; by default, it waits without a
  /// limit. Throws std::system_error if the thread cannot be started. The constructor leaves the
  /// signal mask of the calling thread unchanged, even if it throws.
  explicit BackgroundThread(std::optional<std::chrono::milliseconds> timeout = std::nullopt);
  /// Waits until all added functions have returned. If the timeout expires first, detaches the
  /// thread, which then continues to run the functions. Does not throw.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Adds a function to run on the thread.
  void add(std::function<void()> function);
  /// Waits until at most `count` functions are pending or running.
  void wait_for_at_most(std::size_t count) const;
  /// Rethrows the first exception of a function, if there is one.
  void rethrow() const;

 private:
  struct State;

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::optional<std::chrono::milliseconds> timeout_;
  std::thread thread_;
};

/// Calls other observers, in order, on a background thread, so that a slow disk or a paused
/// terminal does not slow down training.
///
/// If an observer throws, every later call rethrows the exception, so that training stops on a full
/// disk. The observer that threw is not called again. The other observers still receive the queued
/// reports.
///
/// Each call is queued as a report. The queue is unbounded; a million reports take about 200 MB.
///
///     BackgroundObserver files({std::make_shared<MetricsLog>(path)});
///     trainer.run({.observers = {&files}});
class ATTEND_API BackgroundObserver : public Observer {
 public:
  /// `timeout` limits how long the destructor waits until the queued reports are delivered. If
  /// reports are left then, the thread keeps running. Throws std::system_error if the thread cannot
  /// be started.
  explicit BackgroundObserver(std::vector<std::shared_ptr<Observer>> observers,
                              std::chrono::milliseconds timeout = std::chrono::seconds(10))
      : observers_(std::make_shared<Observers>(std::move(observers))), thread_(timeout) {}

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;
  /// Returns after all reports are delivered.
  void on_finish() override;

 private:
  using Report = std::function<void(Observer&)>;
  using Observers = std::vector<std::shared_ptr<Observer>>;

  /// Queues a report for the observers.
  void add(Report report);

  std::shared_ptr<Observers> observers_;  // used only by the background thread
  BackgroundThread thread_;
};

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
  /// Throws std::system_error if the thread cannot be started. The destructor waits until all
  /// checkpoints are saved.
  explicit BackgroundCheckpointSink(std::shared_ptr<CheckpointSink> sink)
      : sink_(std::move(sink)) {}

  void save_best(const std::map<std::string, torch::Tensor>& weights) override;
  void save(const Checkpoint& checkpoint) override;
  void check() override;
  void finish() override;
  /// Waits until all checkpoints are saved, then returns the path of the latest checkpoint.
  std::string latest_path() const override;

 private:
  std::shared_ptr<CheckpointSink> sink_;
  BackgroundThread thread_;
};

}  // namespace attend::train
