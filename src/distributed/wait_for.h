#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace attend::distributed {

/// Waits until `done` returns true. Returns false if it does not within the timeout. Asks less and
/// less often, since thousands of processes may ask the same store.
template <typename Done>
bool wait_until(std::chrono::milliseconds timeout, const Done& done) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (std::chrono::milliseconds pause(10); !done();) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(160));
  }
  return true;
}

/// Waits until the store has the key. Returns false if it does not have it within the timeout;
/// c10d::Store::wait would then print warnings.
inline bool wait_for(c10d::Store& store, const std::string& key,
                     std::chrono::milliseconds timeout) {
  return wait_until(timeout, [&] { return store.check({key}); });
}

}  // namespace attend::distributed
