// Tasks on strings of letters. Each is a row of the table in `letter_tasks`.
#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

#include <algorithm>

namespace attend::train {
namespace {

/// Returns the expected answer for a string of letters.
using Solver = std::string (*)(std::string letters);

/// A task on strings of 1 to `length` letters, drawn from the first `symbols` lowercase letters.
class LetterTask : public QuestionTask {
 public:
  LetterTask(const Recipe& recipe, Solver solver)
      : QuestionTask(recipe, first_letters(recipe.data.symbols) + "=.", 2 * recipe.data.length + 2),
        letters_(first_letters(recipe.data.symbols)),
        max_length_(recipe.data.length),
        solver_(solver) {}

 protected:
  Example draw(Sampler& sampler) const override {
    std::string text(static_cast<std::size_t>(1 + sampler.below(max_length_)), ' ');
    for (auto& character : text) {
      character =
          letters_[static_cast<std::size_t>(sampler.below(static_cast<int64_t>(letters_.size())))];
    }
    return {text + "=", solver_(text) + "."};
  }

 private:
  std::string letters_;
  int64_t max_length_;
  Solver solver_;
};

/// Default recipe: strings of up to 12 letters, drawn from the whole alphabet.
Recipe letter_recipe() {
  auto recipe = question_recipe();
  recipe.data.length = 12;
  recipe.data.symbols = 26;
  recipe.training.optimizer = OptimizerKind::muon;
  recipe.training.lr = 1e-2;
  recipe.training.max_steps = 1000;
  return recipe;
}

/// Default recipe of `sort`: one more layer than the other letter tasks, since the position of each
/// letter in the answer depends on all other letters.
Recipe sort_recipe() {
  auto recipe = letter_recipe();
  recipe.stack().num_layers = 3;
  recipe.training.max_steps = 3000;
  recipe.training.min_lr_ratio = 0.02;
  recipe.training.eval_every = 200;
  return recipe;
}

std::string copied(std::string letters) {
  return letters;
}

std::string reversed(std::string letters) {
  std::reverse(letters.begin(), letters.end());
  return letters;
}

std::string sorted(std::string letters) {
  std::sort(letters.begin(), letters.end());
  return letters;
}

template <Solver solver>
TaskInfo letter_task(const char* name, const char* summary, const Recipe& defaults) {
  return {
      .name = name,
      .summary = summary,
      .defaults = defaults,
      .make = [](const Recipe& recipe, std::shared_ptr<const Tokenizer>) -> std::unique_ptr<Task> {
        return std::make_unique<LetterTask>(recipe, solver);
      },
      .data_keys = {"length", "symbols"},
      .eos_token = "."};
}

}  // namespace

std::vector<TaskInfo> letter_tasks() {
  return {
      letter_task<copied>("copy", "copy of the letters: cab=cab.", letter_recipe()),
      letter_task<reversed>("reverse", "letters in reverse order: cab=bac.", letter_recipe()),
      letter_task<sorted>("sort", "letters in alphabetical order: cab=abc.", sort_recipe()),
  };
}

}  // namespace attend::train
