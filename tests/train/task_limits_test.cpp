#include "attend/input_error.h"
#include "attend/train/loss.h"
#include "attend/train/task.h"
#include "io/files.h"
#include "support/small_runs.h"
#include "support/task_examples.h"
#include "support/temporary_directory.h"
#include "support/throws.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

struct Extreme {
  int64_t length;
  int64_t symbols;
};

/// Returns true if the task with these data values gives batches, and false if making it throws an
/// InputError.
bool works(Recipe recipe, const Extreme& extreme) {
  const auto reads = [keys = find_task(recipe.task).data_keys](const char* key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (reads("length")) recipe.data.length = extreme.length;
  if (reads("symbols")) recipe.data.symbols = extreme.symbols;
  recipe.max_seq_len() = 4 * extreme.length + 64;
  std::unique_ptr<Task> task;
  try {
    task = make_task(recipe);
  } catch (const InputError& error) {
    EXPECT_STRNE(error.what(), "");
    return false;
  }
  Sampler sampler(2);
  EXPECT_EQ(task->training_batch(3, sampler).tokens.size(0), 3);
  EXPECT_GT(num_targets(task->validation_batches(3).front()), 0);
  return true;
}

TEST(TaskLimits, ExtremeDataValuesWorkOrThrowBeforeTraining) {
  for (const auto& task : tasks()) {
    auto recipe = task.defaults;
    if (task.reads_file()) continue;  // has neither length nor symbols
    bool any = false;
    for (const auto& extreme : {Extreme{1, 1}, Extreme{1, 4096}, Extreme{4096, 1},
                                Extreme{4096, 4096}, Extreme{1, 2}, Extreme{2, 1}}) {
      SCOPED_TRACE(fmt::format("{}: {}, {}", task.name, extreme.length, extreme.symbols));
      any = works(recipe, extreme) || any;
    }
    EXPECT_TRUE(any) << task.name;
  }
}

TEST(TaskLimits, LengthLimitsMatchTheMessages) {
  const auto at = [](const char* task, const Extreme& extreme) {
    return works(find_task(task).defaults, extreme);
  };
  for (const auto* task : {"copy", "reverse", "sort", "associative-recall"}) {
    EXPECT_TRUE(at(task, {1, 26})) << task;
    EXPECT_FALSE(at(task, {4, 27})) << task;
  }
  EXPECT_TRUE(at("copy", {4096, 26}));
  EXPECT_TRUE(at("addition", {1, 10}));
  EXPECT_TRUE(at("addition", {18, 10}));
  EXPECT_FALSE(at("addition", {19, 10}));
  EXPECT_FALSE(at("balanced-brackets", {1, 10}));
  EXPECT_TRUE(at("balanced-brackets", {2, 10}));
  EXPECT_FALSE(at("modular-arithmetic", {4, 1}));
  EXPECT_TRUE(at("modular-arithmetic", {4, 2}));
  EXPECT_TRUE(at("modular-arithmetic", {4, 512}));
  EXPECT_FALSE(at("modular-arithmetic", {4, 513}));
}

TEST(TaskLimits, SumsOfEighteenDigitsDoNotOverflow) {
  auto recipe = find_task("addition").defaults;
  recipe.data.length = 18;
  recipe.max_seq_len() = 64;
  for (const auto& example : make_task(recipe)->samples()) {
    EXPECT_THAT(example.prompt, testing::Not(testing::HasSubstr("-")));
    EXPECT_THAT(example.answer, testing::Not(testing::HasSubstr("-")));
  }
}

TEST(TaskLimits, TooSmallMaxSeqLenThrowsAndNamesTheMinimum) {
  for (const auto& task : tasks()) {
    if (task.reads_file()) continue;  // works with any max_seq_len
    auto recipe = task.defaults;
    recipe.max_seq_len() = 1;
    std::string message;
    try {
      make_task(recipe);
    } catch (const InputError& error) {
      message = error.what();
    }
    ASSERT_THAT(message, testing::StartsWith("max_seq_len is 1, expected at least ")) << task.name;
    recipe.max_seq_len() = std::stoll(message.substr(message.find("least ") + 6));
    EXPECT_NO_THROW(make_task(recipe)) << task.name;
    --recipe.max_seq_len();
    EXPECT_THROW(make_task(recipe), InputError) << task.name;
  }
}

TEST(TaskLimits, ValFractionIsRespected) {
  for (const double share : {0.001, 0.3, 0.999}) {
    auto recipe = find_task("modular-arithmetic").defaults;
    recipe.data.symbols = 11;
    recipe.data.val_fraction = share;
    int64_t rows = 0;
    for (const auto& batch : make_task(recipe)->validation_batches(7)) {
      rows += batch.tokens.size(0);
    }
    EXPECT_EQ(rows, std::clamp<int64_t>(std::llround(121 * share), 1, 120));
  }
}

TEST(TaskLimits, TextWithoutLineBreakHasASample) {
  const TemporaryDirectory directory;
  auto recipe = recipe_with_text(find_task("text"), directory.path());
  replace_file(recipe.text.front(), std::string(2000, 'a') + "b");
  for (const auto& example : make_task(recipe)->samples()) EXPECT_NE(example.prompt, "");
}

}  // namespace
}  // namespace attend::train
