#pragma once

#include "attend/api.h"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

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
  void wait_for_at_most(std::size_t count);
  /// Rethrows the first exception of a function, if there is one.
  void rethrow() const;

 private:
  struct State;

  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object
  std::optional<std::chrono::milliseconds> timeout_;
  std::thread thread_;
};

}  // namespace attend::train
