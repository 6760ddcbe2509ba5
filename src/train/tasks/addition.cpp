#include "attend/input_error.h"
#include "train/tasks/question_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace attend::train {
namespace {

constexpr int64_t kMostDigits = 18;  // of numbers whose sum is an int64_t

/// Sums of two numbers of `length` digits, with zeros in front of those that have fewer: so each
/// digit stands where the model expects it. The digits of the sum come in the order in which they
/// are worked out, the last one first, so that each needs only what is there already.
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
    if (digits_ > kMostDigits) {
      throw InputError(fmt::format("length ({}) must be at most {}", digits_, kMostDigits));
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
  return {"addition",
          "the sum, its last digit first: 012+345=7530.",
          AdditionTask::defaults(),
          make<AdditionTask>,
          {"length"}};
}

}  // namespace attend::train
