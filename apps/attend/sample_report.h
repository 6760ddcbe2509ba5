#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>

namespace attend::app {

/// Returns the model's outputs for the task's samples: its answer with the expected one, or a
/// generated continuation. `seed` seeds the sampling. Empty if the task has no samples.
std::string sample_report(train::Model& model, const train::Task& task, int64_t seed);

}  // namespace attend::app
