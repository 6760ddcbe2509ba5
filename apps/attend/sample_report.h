#pragma once

#include "attend/train/model.h"
#include "attend/train/task.h"

#include <string>

namespace attend::app {

/// Returns the model's output for each example of `Task::samples`. If the example has an answer,
/// the output is the model's answer, followed by "correct" or by the expected answer. Otherwise,
/// the output is a generated continuation. `seed` seeds the sampling of continuations. Returns an
/// empty string if the task has no samples.
std::string sample_report(train::Model& model, const train::Task& task, int64_t seed);

}  // namespace attend::app
