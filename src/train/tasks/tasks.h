#pragma once

#include "attend/train/task.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace attend::train {

/// Factory of a task, for `TaskInfo::make`. Constructs a `Made` from the recipe. Passes `tokenizer`
/// too if a constructor of `Made` accepts a tokenizer. If `tokenizer` is null, the task makes a new
/// tokenizer.
template <typename Made>
std::unique_ptr<Task> make(const Recipe& recipe, std::shared_ptr<const Tokenizer> tokenizer) {
  if constexpr (std::is_constructible_v<Made, const Recipe&, std::shared_ptr<const Tokenizer>>)
    return std::make_unique<Made>(recipe, std::move(tokenizer));
  else
    return std::make_unique<Made>(recipe);
}

/// Returns the tokenizer for a recipe: `trained` if it is not null; otherwise a new tokenizer made
/// from `text`.
std::shared_ptr<const Tokenizer> tokenizer_for(const Recipe& recipe, std::string_view text,
                                               std::shared_ptr<const Tokenizer> trained);

/// Returns the paths of `Recipe::text`. Throws InputError if there are none.
const std::vector<std::string>& files_of(const Recipe& recipe);

/// Returns the number and size of the files that a task has read, for `Task::data_notes`: "3 files,
/// 1234 bytes".
DataNote files_note(std::string name, const std::vector<std::string>& paths,
                    std::uintmax_t num_bytes);

/// Throws InputError if the recipe's max_seq_len is less than `longest`, the length of the longest
/// sequence of the recipe's task.
void check_max_seq_len(const Recipe& recipe, int64_t longest);

// One function per file of this folder that contains tasks.
TaskInfo addition_task();
TaskInfo associative_recall_task();
TaskInfo balanced_brackets_task();
TaskInfo labelled_lines_task();
std::vector<TaskInfo> letter_tasks();
TaskInfo modular_arithmetic_task();
TaskInfo senses_task();
TaskInfo text_task();
TaskInfo translation_task();

}  // namespace attend::train
