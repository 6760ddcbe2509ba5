#include "train/tasks/question_task.h"

#include "attend/input_error.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

namespace attend::train {

QuestionTask::QuestionTask(const Recipe& recipe, const std::string& characters, int64_t max_length)
    : vocabulary_(Vocabulary::of_characters(characters)), max_length_(max_length) {
  check_max_seq_len(recipe, max_length);
}

Batch QuestionTask::rows(const std::vector<Example>& examples) const {
  // Any token can be used as padding: padding follows the answer, so causal attention masks it.
  return continuation_rows(examples,
                           {.tokenizer = vocabulary_, .padding = 0, .length = max_length_});
}

std::string first_letters(int64_t count) {
  const std::string all = "abcdefghijklmnopqrstuvwxyz";
  if (count > static_cast<int64_t>(all.size())) {
    throw InputError(fmt::format("data.symbols is {}, expected at most {}", count, all.size()));
  }
  return all.substr(0, static_cast<std::size_t>(count));
}

Recipe question_recipe() {
  Recipe recipe;
  recipe.stack().num_layers = 2;
  recipe.max_seq_len() = 32;
  return recipe;
}

}  // namespace attend::train
