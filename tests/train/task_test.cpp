#include "attend/train/task.h"

#include "attend/input_error.h"

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
              testing::ThrowsMessage<InputError>(
                  "unknown task 'sense'; did you mean 'senses'? There are: senses, text"));
}

}  // namespace
}  // namespace attend::train
