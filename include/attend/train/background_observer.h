#pragma once

#include "attend/api.h"
#include "attend/train/observer.h"

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace attend::train {

class BackgroundThread;

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
  /// `timeout` limits how long the destructor waits for queued reports. Throws std::system_error if
  /// the thread cannot be started.
  explicit BackgroundObserver(std::vector<std::shared_ptr<Observer>> observers,
                              std::chrono::milliseconds timeout = std::chrono::seconds(10));
  /// Waits until all queued reports are delivered, but not longer than the timeout. If reports are
  /// left then, the thread keeps running.
  ~BackgroundObserver() override;
  BackgroundObserver(const BackgroundObserver&) = delete;
  BackgroundObserver& operator=(const BackgroundObserver&) = delete;

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
  std::unique_ptr<BackgroundThread> thread_;
};

}  // namespace attend::train
