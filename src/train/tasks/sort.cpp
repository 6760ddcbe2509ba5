#include "train/tasks/letter_task.h"
#include "train/tasks/tasks.h"

#include <algorithm>

namespace attend::train {
namespace {

class SortTask : public LetterTask {
 public:
  using LetterTask::LetterTask;

  /// Default recipe: one more layer than the other letter tasks, since the position of each letter
  /// in the answer depends on all other letters.
  static Recipe defaults() {
    auto recipe = LetterTask::defaults();
    recipe.stack().num_layers = 3;
    recipe.training.max_steps = 3000;
    recipe.training.min_lr_ratio = 0.02;
    recipe.training.eval_every = 200;
    return recipe;
  }

 protected:
  std::string answer(const std::string& text) const override {
    auto sorted = text;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
};

}  // namespace

TaskInfo sort_task() {
  return {"sort",
          "letters in alphabetical order: cab=abc.",
          SortTask::defaults(),
          make<SortTask>,
          {"length", "symbols"}};
}

}  // namespace attend::train
