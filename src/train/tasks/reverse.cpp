#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

namespace attend::train {
namespace {

class ReverseTask : public QuestionTask {
 public:
  explicit ReverseTask(const Recipe& recipe)
      : QuestionTask(recipe, letters(recipe.data.symbols) + "=.", 2 * recipe.data.length + 2),
        letters_(letters(recipe.data.symbols)),
        longest_(recipe.data.length) {}

 protected:
  Example draw(Sampler& sampler) const override {
    const auto text = random_string(letters_, longest_, sampler);
    return {text + "=", std::string(text.rbegin(), text.rend()) + "."};
  }

 private:
  std::string letters_;
  int64_t longest_;
};

}  // namespace

TaskInfo reverse_task() {
  return {"reverse", "the letters backwards: cab=bac.", question_recipe("reverse"),
          [](const Recipe& recipe) -> std::unique_ptr<Task> {
            return std::make_unique<ReverseTask>(recipe);
          }};
}

}  // namespace attend::train
