#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

#include <algorithm>

namespace attend::train {
namespace {

class SortTask : public QuestionTask {
 public:
  explicit SortTask(const Recipe& recipe)
      : QuestionTask(recipe, letters(recipe.data.symbols) + "=.", 2 * recipe.data.length + 2),
        letters_(letters(recipe.data.symbols)),
        longest_(recipe.data.length) {}

 protected:
  Example draw(Sampler& sampler) const override {
    const auto text = random_string(letters_, longest_, sampler);
    auto sorted = text;
    std::sort(sorted.begin(), sorted.end());
    return {text + "=", sorted + "."};
  }

 private:
  std::string letters_;
  int64_t longest_;
};

}  // namespace

TaskInfo sort_task() {
  return {"sort", "the letters in the order of the alphabet: cab=abc.", question_recipe("sort"),
          [](const Recipe& recipe) -> std::unique_ptr<Task> {
            return std::make_unique<SortTask>(recipe);
          }};
}

}  // namespace attend::train
