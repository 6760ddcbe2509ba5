#include "train/fastest_num_threads.h"

#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace attend::train {
namespace {

// Minimum time of a measurement. It is longer than a time slice of the scheduler, so that it
// includes waiting for another process on the same core.
constexpr double kMinSeconds = 0.06;
constexpr double kMuchSlower = 1.5;   // the search ends at this multiple of the best time
constexpr double kAboutAsFast = 1.1;  // times below this multiple of the best time count as equal

double seconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the mean time of `work` in seconds. The minimum would not include waiting for a core
/// that another process uses.
double mean_seconds_of(const std::function<void()>& work) {
  work();  // starts the threads, fills caches
  double sum = 0.0;
  int64_t count = 0;
  while (sum < kMinSeconds) {
    sum += seconds_of(work);
    ++count;
  }
  return sum / static_cast<double>(count);
}

}  // namespace

NumThreadsGuard::NumThreadsGuard(int64_t threads) : before_(torch::get_num_threads()) {
  torch::set_num_threads(static_cast<int>(threads));
}

NumThreadsGuard::~NumThreadsGuard() {
  torch::set_num_threads(before_);
}

int64_t fastest_num_threads(const std::function<void()>& work, int64_t max_threads) {
  int64_t fastest = max_threads;
  double best = INFINITY;
  for (int64_t threads = max_threads; threads >= 1; threads /= 2) {
    const NumThreadsGuard guard(threads);
    const double seconds = mean_seconds_of(work);
    if (seconds > kMuchSlower * best) break;
    if (seconds < kAboutAsFast * best) fastest = threads;
    best = std::min(best, seconds);
  }
  return fastest;
}

}  // namespace attend::train
