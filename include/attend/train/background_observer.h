#pragma once

#include "attend/train/observer.h"

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace attend::train {

/// Passes what it hears on to other observers, in order, on a thread of its own: a slow disk or a
/// terminal that is paused does not hold up training.
///
/// What one of them throws is thrown by the next call, and by every later one: a full disk stops
/// training rather than being hidden. The one that threw hears no more, the others all.
///
/// Reports wait in a queue without a bound: a bound would have to lose some or hold up training,
/// and a million of them take about 100 MB.
///
///     BackgroundObserver files({std::make_shared<MetricsLog>(path)});
///     trainer.run({.observers = {&files}});
class BackgroundObserver : public Observer {
 public:
  /// `patience` is how long the destructor waits for reports that are still to be passed on.
  explicit BackgroundObserver(std::vector<std::shared_ptr<Observer>> observers,
                              std::chrono::milliseconds patience = std::chrono::seconds(10));
  /// Passes on what waits, as after an error in training, but gives up on an observer that hangs:
  /// it is left behind with its thread.
  ~BackgroundObserver() override;
  BackgroundObserver(const BackgroundObserver&) = delete;
  BackgroundObserver& operator=(const BackgroundObserver&) = delete;

  void on_progress(const Progress& progress) override;
  void on_evaluation(int64_t step, const Evaluation& evaluation) override;
  /// Returns when all observers have heard everything.
  void on_finish() override;

 private:
  using Report = std::function<void(Observer&)>;
  struct State;

  void pass_on(Report report);

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
  std::chrono::milliseconds patience_;
  std::thread thread_;
};

}  // namespace attend::train
