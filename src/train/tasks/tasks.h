#pragma once

#include "attend/train/task.h"

namespace attend::train {

/// `TaskInfo::make` of a task class.
template <typename Made>
std::unique_ptr<Task> make(const Recipe& recipe) {
  return std::make_unique<Made>(recipe);
}

// One per task in this folder.
TaskInfo addition_task();
TaskInfo associative_recall_task();
TaskInfo balanced_brackets_task();
TaskInfo copy_task();
TaskInfo labelled_lines_task();
TaskInfo modular_arithmetic_task();
TaskInfo reverse_task();
TaskInfo senses_task();
TaskInfo sort_task();
TaskInfo text_task();
TaskInfo translation_task();

}  // namespace attend::train
