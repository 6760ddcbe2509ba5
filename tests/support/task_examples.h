#pragma once

#include "attend/train/task.h"

namespace attend::train {

/// The defaults of a task; if it learns a text, of one that is made in `directory`.
Recipe recipe_with_text(const TaskInfo& task, const std::filesystem::path& directory);

/// The questions and answers of a batch, read from its tokens and targets by what the kinds of
/// models make of them, without whatever ends an answer of several tokens.
std::vector<Example> examples_in(const Batch& batch, const Task& task);

}  // namespace attend::train
