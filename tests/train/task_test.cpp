#include "attend/train/task.h"

#include "attend/input_error.h"
#include "attend/train/recipe_fields.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <set>

namespace attend::train {
namespace {

using testing::IsSupersetOf;

TEST(Tasks, AreFoundByName) {
  for (const auto& task : tasks()) {
    EXPECT_STREQ(find_task(task.name).name, task.name);
    EXPECT_EQ(task.defaults.task, task.name);
    EXPECT_STRNE(task.summary, "");
    EXPECT_NO_THROW(check_recipe(task.defaults)) << task.name;
  }
}

TEST(Tasks, UnknownNameSuggestsTheNearest) {
  EXPECT_THAT([] { find_task("sense"); },
              throws<InputError>("unknown task 'sense', expected one of senses, "
                                 "copy, reverse, "));
  EXPECT_THAT([] { find_task("revers"); }, throws<InputError>("; did you mean 'reverse'?"));
}

TEST(Tasks, ReadTheirDataKeys) {
  std::set<std::string> known;
  for (const auto& field : recipe_fields()) {
    if (std::string_view(field.section) == "data") known.insert(field.key);
  }
  for (const auto& task : tasks()) EXPECT_THAT(known, IsSupersetOf(task.data_keys)) << task.name;
}

TEST(Tasks, ThrowForADataKeyWithoutEffect) {
  auto recipe = find_task("translation").defaults;
  recipe.data.symbols = 5;
  EXPECT_THAT([&] { make_task(recipe); }, throws_naming<InputError>("translation", "data.symbols"));
  recipe = find_task("copy").defaults;
  recipe.data.length = 5;
  EXPECT_NO_THROW(make_task(recipe));
  recipe.data.tokenizer = TokenizerKind::word;
  EXPECT_THAT([&] { make_task(recipe); },
              throws_naming<InputError>("copy", "data.tokenizer", "`length`", "`symbols`"));
}

TEST(Tasks, ThrowForAModelOfAnotherKind) {
  auto recipe = find_task("copy").defaults;
  recipe.model = Seq2SeqConfig{};
  EXPECT_THAT(
      [&] { make_task(recipe); },
      throws<InputError>("the task copy requires model.kind language_model, found seq2seq"));
}

}  // namespace
}  // namespace attend::train
