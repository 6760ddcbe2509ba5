#pragma once

#include "attend/train/observer.h"

#include <cstdint>
#include <string>

namespace attend::app {

/// A time as h:mm:ss.
std::string duration_text(double seconds);

/// How far a run of `steps` steps is, on one line of at most `width` columns: as much as fits of
///
///      42% [========>           ] 168/400  loss 2.345  51200 tokens/s  lr 3.00e-04  0:01:12 left
std::string progress_text(const train::Progress& progress, int64_t steps, int width);

/// The same for a log file, of any width and without a bar:
///
///     step 168/400  loss 2.345  51200 tokens/s  lr 3.00e-04  0:01:12 left
std::string progress_log_text(const train::Progress& progress, int64_t steps);

}  // namespace attend::app
