#include "attend/input_error.h"
#include "attend/io/vocabulary.h"
#include "attend/train/example_task.h"
#include "train/tasks/tasks.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

constexpr int64_t kLength = 4;        // number of tokens in "a + b ="
constexpr int64_t kMaxModulus = 512;  // a quarter of a million examples, generated in a second

/// All sums a + b modulo `symbols`, a prime by default. The task shows grokking (Power et al.
/// 2022): the validation accuracy rises long after the training accuracy has reached 100 %.
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

  /// The answer is one word, after "=".
  static bool ends_with_answer(const std::string& text) {
    const auto last = text.rfind(' ');
    return last != std::string::npos && last > 0 && text[last - 1] == '=';
  }

  explicit ModularArithmeticTask(const Recipe& recipe)
      : vocabulary_(TokenizerKind::word, words(recipe.data.symbols)) {
    const int64_t modulus = recipe.data.symbols;
    if (modulus < 2 || modulus > kMaxModulus) {
      throw InputError(fmt::format("data.symbols is {}, expected a value between 2 and {}", modulus,
                                   kMaxModulus));
    }
    check_max_seq_len(recipe, kLength);
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
  return {.name = "modular-arithmetic",
          .summary = "sum modulo a number (grokking): 50 + 60 = 43",
          .defaults = ModularArithmeticTask::defaults(),
          .make = make<ModularArithmeticTask>,
          .data_keys = {"symbols", "val_fraction"},
          .ends_with_answer = ModularArithmeticTask::ends_with_answer};
}

}  // namespace attend::train
