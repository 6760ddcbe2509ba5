#pragma once

#include <cstdint>

namespace attend::train {

/// Returns the peak resident set size of this process in bytes; GPU memory is not included.
int64_t peak_memory();

}  // namespace attend::train
