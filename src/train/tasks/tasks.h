#pragma once

#include "attend/input_error.h"
#include "attend/train/task.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
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

/// Adds the notes of `files_note` about the training and the validation files of a recipe.
void add_file_notes(const Recipe& recipe, std::vector<DataNote>& notes);

/// The rows of one or more tables.
struct PlacedExamples {
  std::vector<std::string> paths;
  std::vector<Example> examples;
  std::vector<std::pair<std::size_t, int64_t>> places;  ///< index of the path, and line, per row

  /// Calls `use` with each example. If `use` throws InputError, the message names file and line.
  template <typename Use>
  void for_each(const Use& use) const {
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const auto& [path, line] = places[i];
      with_source(fmt::format("{}:{}", paths[path], line), [&] { use(examples[i]); });
    }
  }
};

/// Returns the first names, such as "a, b, 490 more".
std::string shortened(const std::vector<std::string>& names);
/// Returns the most frequent classes and their counts, such as "2: neg (120), pos (80)".
std::string class_counts(const std::map<std::string, int64_t>& classes);
/// Returns the classes and their weights, such as "a 0.5556, b 5.0000".
std::string weights_text(const torch::Tensor& weights, const std::vector<std::string>& classes);

/// Throws InputError if the recipe's max_seq_len is less than `longest`, the length of the longest
/// sequence of the recipe's task.
void check_max_seq_len(const Recipe& recipe, int64_t longest);

/// Returns one checksum of the contents of files.
std::string checksum_of_files(const std::vector<std::string>& paths);

/// Throws InputError if the tokenizer cannot encode a text of a table. `can_change`: true if
/// another tokenizer may be chosen.
void check_text(const Tokenizer& tokenizer, const std::string& text, bool can_change);

// One function per file of this folder that contains tasks.
TaskInfo addition_task();
TaskInfo answers_task();
TaskInfo associative_recall_task();
TaskInfo balanced_brackets_task();
TaskInfo labelled_lines_task();
std::vector<TaskInfo> letter_tasks();
TaskInfo masked_lm_task();
TaskInfo modular_arithmetic_task();
TaskInfo senses_task();
TaskInfo text_task();
TaskInfo token_classification_task();
TaskInfo translation_task();

}  // namespace attend::train
