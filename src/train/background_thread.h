#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>

namespace attend::train {

/// Runs functions in order on a thread of its own, which receives no signals. The first exception
/// of a function is kept for `rethrow`; the functions after it are still run.
class BackgroundThread {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the thread. `timeout` limits how long the destructor waits. Throws std::system_error if
  /// the thread cannot be started; the signals of the calling thread are unchanged then.
  explicit BackgroundThread(std::chrono::milliseconds timeout);
  /// Runs the functions that were added. After the timeout, leaves the thread running. Does not
  /// throw.
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  /// Adds a function.
  void add(std::function<void()> function);
  /// Returns when at most `count` functions have not returned.
  void wait_for_at_most(std::size_t count);
  /// Throws the first exception of a function, if there is one.
  void rethrow() const;

 private:
  struct State;

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::chrono::milliseconds timeout_;
  std::thread thread_;
};

}  // namespace attend::train
