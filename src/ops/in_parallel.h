#pragma once

#include "attend/api.h"

#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <initializer_list>

namespace attend {

/// Calls `run(begin, end)` on LibTorch's threads, with parts of the numbers 0 to `count` - 1 that
/// have at least about `grain` numbers. The parts depend on the arguments, the number of
/// threads, and the number of callers: if calls of several threads overlap, and for some calls
/// afterwards, the callers share the cores.
ATTEND_API void in_parallel(int64_t count, int64_t grain,
                            c10::function_ref<void(int64_t, int64_t)> run);

/// Work that begins when the previous phase has ended. With a count of 0, there is none.
struct Phase {
  int64_t count = 0;
  int64_t grain = 1;
  c10::function_ref<void(int64_t, int64_t)> run;  // must not throw
};

/// Calls `in_parallel(count, grain, run)` for each phase, but starts the threads once: between two
/// phases, they wait for each other without sleeping.
ATTEND_API void in_phases(std::initializer_list<Phase> phases);

}  // namespace attend
