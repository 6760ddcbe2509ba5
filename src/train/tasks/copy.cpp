#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

namespace attend::train {
namespace {

class CopyTask : public QuestionTask {
 public:
  explicit CopyTask(const Recipe& recipe)
      : QuestionTask(recipe, letters(recipe.data.symbols) + "=.", 2 * recipe.data.length + 2),
        letters_(letters(recipe.data.symbols)),
        longest_(recipe.data.length) {}

 protected:
  Example draw(Sampler& sampler) const override {
    const auto text = random_string(letters_, longest_, sampler);
    return {text + "=", text + "."};
  }

 private:
  std::string letters_;
  int64_t longest_;
};

}  // namespace

TaskInfo copy_task() {
  return {"copy", "the same letters again: cab=cab.", question_recipe("copy"),
          [](const Recipe& recipe) -> std::unique_ptr<Task> {
            return std::make_unique<CopyTask>(recipe);
          }};
}

}  // namespace attend::train
