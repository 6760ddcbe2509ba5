#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>

namespace attend::app {

/// Returns the model's output for each example of `Task::samples`: the model's answer and the
/// expected answer, or a generated continuation if the example has no answer. `seed` seeds the
/// sampling of continuations. Empty if the task has no samples.
std::string sample_report(train::Model& model, const train::Task& task, int64_t seed);

}  // namespace attend::app
