#pragma once

#include "attend/api.h"

#include <cstdint>
#include <functional>

namespace attend::train {

/// Returns the number of CPU threads, at most `max_threads`, with which `work` is fastest. Times
/// `work` with `max_threads` threads, half as many, a quarter and so on. Stops after one thread, or
/// when `work` becomes much slower. If several numbers are about equally fast, returns the lowest:
/// fewer threads slow down less when another process needs a core. Leaves LibTorch's number of
/// threads unchanged.
ATTEND_API int64_t fastest_num_threads(const std::function<void()>& work, int64_t max_threads);

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
