#pragma once

#include "attend/api.h"
#include "attend/train/device.h"

#include <cstdint>
#include <functional>

namespace attend::train {

/// Returns the number of CPU threads with which a computation is fastest. `seconds_with(n)` returns
/// the time of the computation with n threads. Tries `max_threads`, then half of that (rounded up),
/// and so on down to 1. Stops before 1 only if the computation takes more than a second and is much
/// slower than with more threads. If several numbers are about equally fast, returns the lowest: a
/// computation with fewer threads slows down less when another process needs a core.
///
///     fastest_num_threads([&](int64_t n) { return mean_seconds(work, n); }, 8);
ATTEND_API int64_t fastest_num_threads(const std::function<double(int64_t)>& seconds_with,
                                       int64_t max_threads);

/// Returns the mean time of a call of `work` with `threads` CPU threads, in seconds. Calls
/// `work` at least twice; the first call is not timed. Leaves LibTorch's number of threads
/// unchanged.
ATTEND_API double mean_seconds(const std::function<void()>& work, int64_t threads);

/// Sets LibTorch's number of threads until the end of the scope.
///
///     const NumThreadsGuard threads(1);
class ATTEND_API NumThreadsGuard {
 public:
  explicit NumThreadsGuard(int64_t threads);
  ~NumThreadsGuard();
  NumThreadsGuard(const NumThreadsGuard&) = delete;
  NumThreadsGuard& operator=(const NumThreadsGuard&) = delete;

 private:
  int before_;
};

}  // namespace attend::train
