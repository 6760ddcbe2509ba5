#include "train/tasks/letter_task.h"

namespace attend::train {

LetterTask::LetterTask(const Recipe& recipe)
    : QuestionTask(recipe, first_letters(recipe.data.symbols) + "=.", 2 * recipe.data.length + 2),
      letters_(first_letters(recipe.data.symbols)),
      max_length_(recipe.data.length) {}

Recipe LetterTask::defaults() {
  auto recipe = question_recipe();
  recipe.data.length = 12;
  recipe.data.symbols = 26;
  recipe.training.optimizer = OptimizerKind::muon;
  recipe.training.lr = 1e-2;
  recipe.training.max_steps = 1000;
  return recipe;
}

Example LetterTask::draw(Sampler& sampler) const {
  std::string text(static_cast<std::size_t>(1 + sampler.below(max_length_)), ' ');
  for (auto& character : text) {
    character =
        letters_[static_cast<std::size_t>(sampler.below(static_cast<int64_t>(letters_.size())))];
  }
  return {text + "=", answer(text) + "."};
}

}  // namespace attend::train
