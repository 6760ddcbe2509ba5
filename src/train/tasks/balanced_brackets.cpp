#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/train/example_batches.h"
#include "attend/train/example_task.h"
#include "train/check_context.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

const std::string kBalanced = "balanced";
const std::string kUnbalanced = "unbalanced";
const std::string kBrackets = "([)]";  // each closing one two places after its opening one

/// Whether every bracket of a string has its partner. Trained on up to `length` brackets, measured
/// on strings of more than that, up to twice as many. Half of the strings are balanced; the others
/// differ from a balanced one in one bracket, or in two that have changed places.
class BalancedBracketsTask : public ExampleTask {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.data.length = 16;
    // One bracket without a partner decides, which an average over the string would hide.
    recipe.model = SequenceClassifierConfig{.pooling = Pooling::max};
    recipe.max_seq_len() = 32;
    recipe.stack().num_layers = 4;
    recipe.stack().positions = PositionScheme::relative;
    // No distance is in a bucket that shorter strings have not trained.
    recipe.stack().relative_attention_num_buckets = 16;
    recipe.stack().relative_attention_max_distance = 8;
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
      throw InputError(fmt::format("length ({}) must be at least 2", recipe.data.length));
    }
    check_context(recipe, longest());
  }

  const Vocabulary& tokenizer() const override { return vocabulary_; }
  std::vector<std::string> classes() const override { return {kBalanced, kUnbalanced}; }

 protected:
  Example draw(Sampler& sampler) const override {
    return example(1 + sampler.below(pairs_), sampler);
  }
  Example draw_held_out(Sampler& sampler) const override {
    return example(pairs_ + 1 + sampler.below(pairs_), sampler);
  }
  Batch rows(const std::vector<Example>& examples) const override {
    return classification_rows(
        examples, {.tokenizer = vocabulary_, .padding = 0, .length = longest()}, classes());
  }

 private:
  int64_t longest() const { return 4 * pairs_; }

  static Example example(int64_t pairs, Sampler& sampler) {
    auto text = balanced(pairs, sampler);
    if (sampler.below(2) == 0) return {text, kBalanced};
    const auto place = [&] {
      return static_cast<std::size_t>(sampler.below(static_cast<int64_t>(text.size())));
    };
    auto spoiled = text;
    while (is_balanced(spoiled)) {
      spoiled = text;
      if (sampler.below(2) == 0) {
        spoiled[place()] = kBrackets[static_cast<std::size_t>(sampler.below(4))];
      } else {
        std::swap(spoiled[place()], spoiled[place()]);
      }
    }
    return {spoiled, kUnbalanced};
  }

  /// Opens or closes at random as long as both can be.
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
  return {"balanced-brackets",
          "whether brackets are balanced, at lengths not trained on",
          BalancedBracketsTask::defaults(),
          make<BalancedBracketsTask>,
          {"length"}};
}

}  // namespace attend::train
