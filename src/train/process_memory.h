#pragma once

#include "attend/api.h"

#include <cstdint>

namespace attend::train {

/// The most memory that this process has held so far (its peak resident set), in bytes; what lies
/// on a GPU is not in it.
ATTEND_API int64_t peak_memory();

}  // namespace attend::train
