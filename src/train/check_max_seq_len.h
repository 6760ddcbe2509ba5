#pragma once

#include "attend/input_error.h"
#include "attend/train/recipe.h"

#include <fmt/format.h>

namespace attend::train {

/// Throws InputError if the recipe's max_seq_len is less than `longest`, the length of the longest
/// sequence of the recipe's task.
inline void check_max_seq_len(const Recipe& recipe, int64_t longest) {
  if (recipe.max_seq_len() >= longest) return;
  throw InputError(fmt::format(
      "max_seq_len is {}, expected at least {}: the longest sequence of the task {} has {} tokens",
      recipe.max_seq_len(), longest, recipe.task, longest));
}

}  // namespace attend::train
