#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/train/example_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

const std::string kBalanced = "balanced";
const std::string kUnbalanced = "unbalanced";
const std::string kBrackets = "([)]";  // two opening brackets, then their closing brackets

/// Classifies strings of brackets as balanced or unbalanced. Training strings have up to `length`
/// brackets; validation strings have more, up to 2 * `length`. Half of the strings are balanced. An
/// unbalanced string is made from a balanced string: one bracket is changed, or two are swapped.
class BalancedBracketsTask : public ExampleTask {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.data.length = 16;
    // Max pooling, since mean pooling would average out a single unmatched bracket.
    recipe.model = SequenceClassifierConfig{.pooling = Pooling::max};
    recipe.max_seq_len() = 32;
    recipe.stack().num_layers = 4;
    recipe.stack().positions = PositionScheme::relative;
    // With these values, the training strings contain distances of every bucket, so the longer
    // validation strings use only buckets that are trained.
    recipe.stack().relative_bias.num_buckets = 16;
    recipe.stack().relative_bias.max_distance = 8;
    recipe.stack().smeared_keys = true;
    recipe.training.optimizer = OptimizerKind::muon;
    recipe.training.lr = 5e-3;
    recipe.training.max_steps = 2000;
    recipe.training.eval_every = 250;
    return recipe;
  }

  explicit BalancedBracketsTask(const Recipe& recipe)
      : vocabulary_(Vocabulary::of_characters(kBrackets)), pairs_(recipe.data.length / 2) {
    if (pairs_ < 1) {
      throw InputError(fmt::format("data.length is {}, expected at least 2", recipe.data.length));
    }
    check_max_seq_len(recipe, max_length());
  }

  const Vocabulary& tokenizer() const override { return vocabulary_; }
  std::vector<std::string> classes() const override { return {kBalanced, kUnbalanced}; }

 protected:
  Example draw(Sampler& sampler) const override {
    return example(1 + sampler.below(pairs_), sampler);
  }
  Example draw_validation(Sampler& sampler) const override {
    return example(pairs_ + 1 + sampler.below(pairs_), sampler);
  }
  Batch rows(const std::vector<Example>& examples) const override {
    return classification_rows(
        examples, {.tokenizer = vocabulary_, .padding = 0, .length = max_length()}, classes());
  }

 private:
  int64_t max_length() const { return 4 * pairs_; }

  static Example example(int64_t pairs, Sampler& sampler) {
    auto text = balanced(pairs, sampler);
    if (sampler.below(2) == 0) return {text, kBalanced};
    const auto position = [&] {
      return static_cast<std::size_t>(sampler.below(static_cast<int64_t>(text.size())));
    };
    auto unbalanced = text;
    while (is_balanced(unbalanced)) {
      unbalanced = text;
      if (sampler.below(2) == 0) {
        unbalanced[position()] = kBrackets[static_cast<std::size_t>(sampler.below(4))];
      } else {
        std::swap(unbalanced[position()], unbalanced[position()]);
      }
    }
    return {unbalanced, kUnbalanced};
  }

  /// Returns a random balanced string of `pairs` pairs of brackets. At each position where a
  /// bracket can either be opened or closed, makes a random choice.
  static std::string balanced(int64_t pairs, Sampler& sampler) {
    std::string text;
    std::string open;
    for (int64_t opened = 0; opened < pairs || !open.empty();) {
      if (open.empty() || (opened < pairs && sampler.below(2) == 0)) {
        const auto kind = static_cast<std::size_t>(sampler.below(2));
        text += kBrackets[kind];
        open += kBrackets[kind + 2];
        ++opened;
      } else {
        text += open.back();
        open.pop_back();
      }
    }
    return text;
  }

  static bool is_balanced(const std::string& text) {
    std::string open;
    for (const char bracket : text) {
      const auto kind = kBrackets.find(bracket);
      if (kind < 2) {
        open += kBrackets[kind + 2];
      } else if (!open.empty() && open.back() == bracket) {
        open.pop_back();
      } else {
        return false;
      }
    }
    return open.empty();
  }

  Vocabulary vocabulary_;
  int64_t pairs_;
};

}  // namespace

TaskInfo balanced_brackets_task() {
  return {.name = "balanced-brackets",
          .summary = "whether brackets are balanced, at lengths not seen in training",
          .defaults = BalancedBracketsTask::defaults(),
          .make = make<BalancedBracketsTask>,
          .data_keys = {"length"}};
}

}  // namespace attend::train
