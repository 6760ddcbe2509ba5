#include "attend/input_error.h"
#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <utility>

namespace attend::train {
namespace {

/// Associative recall: up to `length` distinct letters, each followed by a digit, then "?" and one
/// of the letters again. The answer is the digit of that letter. A minimal task for induction heads
/// (Olsson et al. 2022).
class AssociativeRecallTask : public QuestionTask {
 public:
  /// Default recipe with `smeared_keys`: attention mixes each key with the previous key. Without
  /// `smeared_keys`, a model with two layers did not learn the task in 5000 steps.
  static Recipe defaults() {
    auto recipe = question_recipe();
    recipe.stack().positions = PositionScheme::rotary;
    recipe.stack().smeared_keys = true;
    recipe.training.max_steps = 600;
    return recipe;
  }

  /// The answer is one digit, after "?" and a letter.
  static bool ends_with_answer(const std::string& text) {
    return text.size() >= 3 && text[text.size() - 3] == '?';
  }

  explicit AssociativeRecallTask(const Recipe& recipe)
      : QuestionTask(recipe, first_letters(recipe.data.symbols) + "0123456789?",
                     2 * recipe.data.length + 3),
        letters_(first_letters(recipe.data.symbols)),
        max_length_(recipe.data.length) {
    if (max_length_ > recipe.data.symbols) {
      throw InputError(
          fmt::format("data.length ({}) must be at most data.symbols ({}), since the letters of a "
                      "sequence are distinct",
                      max_length_, recipe.data.symbols));
    }
  }

 protected:
  Example draw(Sampler& sampler) const override {
    auto keys = letters_;
    for (std::size_t i = keys.size() - 1; i > 0; --i) {
      std::swap(keys[i],
                keys[static_cast<std::size_t>(sampler.below(static_cast<int64_t>(i) + 1))]);
    }
    keys.resize(static_cast<std::size_t>(1 + sampler.below(max_length_)));
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
  int64_t max_length_;
};

}  // namespace

TaskInfo associative_recall_task() {
  return {.name = "associative-recall",
          .summary = "digit that followed a letter: c4a7b1?a7",
          .defaults = AssociativeRecallTask::defaults(),
          .make = make<AssociativeRecallTask>,
          .data_keys = {"length", "symbols"},
          .ends_with_answer = AssociativeRecallTask::ends_with_answer};
}

}  // namespace attend::train
