#include "attend/input_error.h"
#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <utility>

namespace attend::train {
namespace {

/// Up to `length` letters, no two alike, each with a digit, and then one of the letters again:
/// which digit was its? The task that shows induction (Olsson et al. 2022) at its smallest.
class AssociativeRecallTask : public QuestionTask {
 public:
  /// With smeared keys, since two layers without them had not found the rule after 5000 steps.
  static Recipe defaults() {
    auto recipe = question_recipe();
    recipe.stack().positions = PositionScheme::rotary;
    recipe.stack().smeared_keys = true;
    recipe.training.max_steps = 600;
    return recipe;
  }

  explicit AssociativeRecallTask(const Recipe& recipe)
      : QuestionTask(recipe, first_letters(recipe.data.symbols) + "0123456789?",
                     2 * recipe.data.length + 3),
        letters_(first_letters(recipe.data.symbols)),
        longest_(recipe.data.length) {
    if (longest_ > recipe.data.symbols) {
      throw InputError(
          fmt::format("length ({}) must be at most symbols ({}): each letter has one digit",
                      longest_, recipe.data.symbols));
    }
  }

 protected:
  Example draw(Sampler& sampler) const override {
    auto keys = letters_;
    for (std::size_t i = keys.size() - 1; i > 0; --i) {
      std::swap(keys[i],
                keys[static_cast<std::size_t>(sampler.below(static_cast<int64_t>(i) + 1))]);
    }
    keys.resize(static_cast<std::size_t>(1 + sampler.below(longest_)));
    const auto asked = static_cast<std::size_t>(sampler.below(static_cast<int64_t>(keys.size())));
    Example example;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto value = std::to_string(sampler.below(10));
      example.prompt += keys[i] + value;
      if (i == asked) example.answer = value;
    }
    example.prompt += std::string("?") + keys[asked];
    return example;
  }

 private:
  std::string letters_;
  int64_t longest_;
};

}  // namespace

TaskInfo associative_recall_task() {
  return {"associative-recall",
          "the digit that stood beside a letter: c4a7b1?a7",
          AssociativeRecallTask::defaults(),
          make<AssociativeRecallTask>,
          {"length", "symbols"}};
}

}  // namespace attend::train
