#pragma once

#include "attend/api.h"

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace attend {

/// Calls `run(begin, end)` on LibTorch's threads, with parts of the numbers 0 to `count` - 1 that
/// have at least about `grain` numbers. The parts depend only on the arguments and the number of
/// threads.
ATTEND_API void in_parallel(int64_t count, int64_t grain,
                            c10::function_ref<void(int64_t, int64_t)> run);

}  // namespace attend
