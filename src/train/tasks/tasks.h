#pragma once

#include "attend/train/task.h"

namespace attend::train {

// One for each file of this folder.
TaskInfo addition_task();
TaskInfo associative_recall_task();
TaskInfo balanced_brackets_task();
TaskInfo copy_task();
TaskInfo labelled_lines_task();
TaskInfo modular_arithmetic_task();
TaskInfo reverse_task();
TaskInfo sort_task();
TaskInfo translation_task();

}  // namespace attend::train
