#pragma once

#include "attend/train/evaluation.h"
#include "attend/train/observer.h"

#include <cstdint>
#include <string>

namespace attend::app {

/// Formats a duration as m:ss or h:mm:ss.
std::string duration_text(double seconds);

/// Formats the progress bar of a run of `max_steps` steps. The text has at most `width` columns;
/// fields that do not fit are dropped. If all fields fit, the text is, for example:
///
///      42% [===>     ] 168/400 | train loss 2.3450 | lr 3.00e-04 | 51.2k tok/s | eta 1:12
std::string progress_bar(const train::Progress& progress, int64_t max_steps, int width);

/// Formats a log line for a training step:
///
///     step 168/400 | train loss 2.3450 | lr 3.00e-04 | 51.2k tok/s | eta 1:12
std::string step_line(const train::Progress& progress, int64_t max_steps);

/// Formats a log line for an evaluation at `step`:
///
///     step 168/400 | train loss 2.3450 | val loss 2.2510 | acc 97.3% | 51.2k tok/s | eta 1:12
std::string evaluation_line(int64_t step, const train::Evaluation& evaluation,
                            const train::Progress& progress, int64_t max_steps);

}  // namespace attend::app
