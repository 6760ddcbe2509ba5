#pragma once

#include "attend/train/task.h"

namespace attend::train {

/// Returns the default recipe of a task. If the task reads a file, creates this file in `directory`
/// and sets `text` of the recipe to its path.
Recipe recipe_with_text(const TaskInfo& task, const std::filesystem::path& directory);

/// Decodes the questions and answers of a batch from its tokens and targets. Works for batches of
/// all kinds of models. The decoded texts contain no end-of-sequence tokens.
std::vector<Example> examples_in(const Batch& batch, const Task& task);

}  // namespace attend::train
