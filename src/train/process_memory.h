#pragma once

#include "attend/api.h"

#include <cstdint>

namespace attend::train {

/// Returns the peak resident set size of this process in bytes; GPU memory is not included.
ATTEND_API int64_t peak_memory();

}  // namespace attend::train
