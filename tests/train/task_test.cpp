#include "attend/train/task.h"

#include "attend/input_error.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

TEST(Tasks, EachIsFoundByItsNameAndItsDefaultsNameIt) {
  for (const auto& task : tasks()) {
    EXPECT_STREQ(find_task(task.name).name, task.name);
    EXPECT_EQ(task.defaults.task, task.name);
    EXPECT_STRNE(task.summary, "");
    EXPECT_NO_THROW(check_recipe(task.defaults)) << task.name;
  }
}

TEST(Tasks, AnUnknownNameSuggestsTheNearest) {
  EXPECT_THAT([] { find_task("sense"); },
              throws<InputError>("unknown task 'sense'; did you mean 'senses'? There are: senses, "
                                 "copy, reverse, "));
  EXPECT_THAT([] { find_task("revers"); }, throws<InputError>("did you mean 'reverse'?"));
}

TEST(Tasks, AModelOfAnotherKindIsRefused) {
  auto recipe = find_task("copy").defaults;
  recipe.model = Seq2SeqConfig{};
  EXPECT_THAT(
      [&] { make_task(recipe); },
      throws<InputError>("the task copy trains a language_model, the recipe names a seq2seq"));
}

}  // namespace
}  // namespace attend::train
