#include "attend/input_error.h"
#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

constexpr int64_t kMaxDigits = 18;  // the sum must fit in int64_t

/// Addition of two zero-padded numbers of `length` digits. The sum is written with its last digit
/// first, since carries go from the last digit to the first.
class AdditionTask : public QuestionTask {
 public:
  static Recipe defaults() {
    auto recipe = question_recipe();
    recipe.data.length = 3;
    recipe.training.max_steps = 2000;
    recipe.training.eval_every = 200;
    return recipe;
  }

  explicit AdditionTask(const Recipe& recipe)
      : QuestionTask(recipe, "0123456789+=.", 3 * recipe.data.length + 4),
        digits_(recipe.data.length) {
    if (digits_ > kMaxDigits) {
      throw InputError(fmt::format("data.length is {}, expected at most {}", digits_, kMaxDigits));
    }
  }

 protected:
  Example draw(Sampler& sampler) const override {
    const auto bound = static_cast<int64_t>(std::pow(10, digits_));
    const int64_t one = sampler.below(bound);
    const int64_t other = sampler.below(bound);
    auto sum = fmt::format("{:0{}}", one + other, digits_ + 1);
    std::reverse(sum.begin(), sum.end());
    return {fmt::format("{:0{}}+{:0{}}=", one, digits_, other, digits_), sum + "."};
  }

 private:
  int64_t digits_;
};

}  // namespace

TaskInfo addition_task() {
  return {.name = "addition",
          .summary = "sum of two numbers, last digit first: 012+345=7530.",
          .defaults = AdditionTask::defaults(),
          .make = make<AdditionTask>,
          .data_keys = {"length"},
          .eos_token = "."};
}

}  // namespace attend::train
