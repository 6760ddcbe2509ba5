#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>

namespace attend::app {

/// What the model makes of the task's samples: its answer beside the right one, or a text
/// continued. `seed` is that of the drawing. Empty without samples.
std::string sample_report(train::Model& model, const train::Task& task, int64_t seed);

}  // namespace attend::app
