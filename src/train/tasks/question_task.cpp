#include "train/tasks/question_task.h"

#include "attend/input_error.h"
#include "attend/train/example_batches.h"
#include "train/check_context.h"

#include <fmt/format.h>

namespace attend::train {

QuestionTask::QuestionTask(const Recipe& recipe, const std::string& characters, int64_t longest)
    : vocabulary_(Vocabulary::of_characters(characters)), longest_(longest) {
  check_context(recipe, longest);
}

Batch QuestionTask::rows(const std::vector<Example>& examples) const {
  // Any token will do as padding: it follows the answer, where causal attention cannot see it.
  return continuation_rows(examples, {.tokenizer = vocabulary_, .padding = 0, .length = longest_});
}

std::string first_letters(int64_t count) {
  const std::string all = "abcdefghijklmnopqrstuvwxyz";
  if (count > static_cast<int64_t>(all.size())) {
    throw InputError(fmt::format("symbols ({}) must be at most {}", count, all.size()));
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
