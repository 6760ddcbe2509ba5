#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/train/example_batches.h"
#include "attend/train/example_task.h"
#include "train/check_context.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

constexpr int64_t kLength = 4;            // a + b =
constexpr int64_t kLargestModulus = 512;  // a quarter of a million sums, made in a second

/// All sums a + b modulo `symbols`, a prime by default (Power et al. 2022): long after the model
/// knows the sums that it is trained on by heart, it finds the rule, and the held-out ones come
/// right: grokking.
class ModularArithmeticTask : public ListedTask {
 public:
  static Recipe defaults() {
    Recipe recipe;
    recipe.data.symbols = 67;
    recipe.data.val_fraction = 0.7;
    recipe.max_seq_len() = kLength;
    recipe.stack().num_layers = 1;
    recipe.stack().embed_dim = 128;
    recipe.training.max_steps = 3000;
    recipe.training.batch_size = 256;
    recipe.training.lr = 1e-3;
    recipe.training.schedule = ScheduleKind::constant;
    recipe.training.beta2 = 0.98;
    recipe.training.weight_decay = 1.0;
    return recipe;
  }

  explicit ModularArithmeticTask(const Recipe& recipe)
      : vocabulary_(TokenizerKind::word, words(recipe.data.symbols)) {
    const int64_t modulus = recipe.data.symbols;
    if (modulus < 2 || modulus > kLargestModulus) {
      throw InputError(
          fmt::format("symbols ({}) must be between 2 and {}", modulus, kLargestModulus));
    }
    check_context(recipe, kLength);
    std::vector<Example> examples;
    for (int64_t a = 0; a < modulus; ++a) {
      for (int64_t b = 0; b < modulus; ++b) {
        examples.push_back({fmt::format("{} + {} =", a, b), std::to_string((a + b) % modulus)});
      }
    }
    set_examples(examples, recipe.data.val_fraction);
  }

  const Vocabulary& tokenizer() const override { return vocabulary_; }

 protected:
  Batch rows(const std::vector<Example>& examples) const override {
    return continuation_rows(examples, {.tokenizer = vocabulary_, .padding = 0, .length = kLength});
  }

 private:
  static std::vector<std::string> words(int64_t modulus) {
    std::vector<std::string> all{"+", "="};
    for (int64_t number = 0; number < modulus; ++number) all.push_back(std::to_string(number));
    return all;
  }

  Vocabulary vocabulary_;
};

}  // namespace

TaskInfo modular_arithmetic_task() {
  return {"modular-arithmetic",
          "the sum modulo a number, which a model groks: 50 + 60 = 13",
          ModularArithmeticTask::defaults(),
          make<ModularArithmeticTask>,
          {"symbols", "held_out"}};
}

}  // namespace attend::train
