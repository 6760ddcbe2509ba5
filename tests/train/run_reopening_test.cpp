#include "attend/input_error.h"
#include "attend/train/run.h"
#include "io/files.h"
#include "support/run_directory.h"
#include "support/throws.h"
#include "train/run_lock.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReopenedRun : public RunDirectory {
 protected:
  ReopenedRun() { lock_.reset(); }

  auto reopening(const Recipe& recipe) {
    return [=, this] { reopen_run(path_, recipe, *make_task(recipe)); };
  }
};

TEST_F(ReopenedRun, MayHaveOtherValuesOfTraining) {
  auto longer = recipe_;
  longer.training.max_steps = 1000;
  longer.training.lr = 1e-4;
  reopening(longer)();
  EXPECT_EQ(to_toml(recipe_of_run(path_)), to_toml(recipe_)) << "until there is more to keep";
  keep_recipe(path_, longer);
  EXPECT_EQ(to_toml(recipe_of_run(path_)), to_toml(longer));
}

TEST_F(ReopenedRun, ThatIsFinishedNeedsItsCheckpoints) {
  train_for(4);
  finish();
  reopening(recipe_)();
  std::filesystem::remove_all(path_ / RunFiles::checkpoints);
  EXPECT_THAT(reopening(recipe_), throws<InputError>("is finished, and its checkpoints are gone"));
}

TEST_F(ReopenedRun, NamesAllThatDiffers) {
  auto other = recipe_;
  other.stack().num_layers = 3;
  other.stack().norm = NormKind::rms;
  other.training.optimizer = OptimizerKind::muon;
  other.training.seed = 9;
  other.training.lr = 1e-4;
  EXPECT_THAT(reopening(other),
              testing::ThrowsMessage<InputError>(
                  AllOf(HasSubstr("run was begun with something else"),
                        HasSubstr("layers: '1' in the run, now '3'"), HasSubstr("norm: 'layer'"),
                        HasSubstr("optimizer: 'adamw'"), HasSubstr("seed: '1' in the run, now '9'"),
                        Not(HasSubstr("lr: ")))));
  EXPECT_EQ(to_toml(recipe_of_run(path_)), to_toml(recipe_)) << "what is refused changes nothing";
}

TEST_F(ReopenedRun, NamesAnotherTaskWithItsModelClassesAndVocabulary) {
  EXPECT_THAT(reopening(small_recipe("balanced-brackets")),
              testing::ThrowsMessage<InputError>(
                  AllOf(HasSubstr("task: 'senses' in the run, now 'balanced-brackets'"),
                        HasSubstr("kind of model: 'language_model'"),
                        HasSubstr("classes: '' in the run, now 'balanced, unbalanced'"),
                        HasSubstr("vocabulary: "))));
}

TEST_F(ReopenedRun, EveryValueOfTheModelCounts) {
  for (const auto& field : recipe_fields()) {
    if (std::string(field.section) != "model") continue;
    auto other = recipe_;
    const auto change = [](auto value) {
      using T = std::remove_pointer_t<decltype(value)>;
      if constexpr (std::is_same_v<T, bool>) {
        *value = !*value;
      } else if constexpr (std::is_enum_v<T>) {
        *value = static_cast<T>(EnumNames<T>::names.size() - 1);
      } else if constexpr (std::is_arithmetic_v<T>) {
        *value += 17;
      }
    };
    std::visit(change, field.ref(other));
    if (value_text(field, other) == value_text(field, recipe_)) continue;  // no such value
    EXPECT_THAT([&] { reopen_run(path_, other, *task_); }, throws<InputError>(field.key));
  }
}

TEST_F(ReopenedRun, TakesAMovedTextButNotAChangedOne) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "some words and more ";
  begin_with_text(text);
  lock_.reset();
  replace_file(directory_ / "moved", text);
  auto recipe = recipe_;
  recipe.text = (directory_ / "moved").string();
  EXPECT_NO_THROW(reopening(recipe)());
  std::swap(text[0], text[1]);  // of the same characters
  replace_file(directory_ / "moved", text);
  EXPECT_THAT(reopening(recipe), throws<InputError>("checksum of the data: "));
}

TEST_F(ReopenedRun, AChangeToItsRecipeIsNoticed) {
  lock_.reset();
  auto text = read_bytes(path_ / RunFiles::recipe);
  const auto heads = text.find("heads = 2");
  ASSERT_NE(heads, std::string::npos);
  text.replace(heads, 9, "heads = 4");
  replace_file(path_ / RunFiles::recipe, text);
  EXPECT_THAT([&] { recipe_of_run(path_); },
              throws<InputError>("recipe.toml: was changed after the run was begun: heads: '2' in "
                                 "the run, now '4'"));
}

TEST_F(ReopenedRun, IsRefusedWhileAnotherProcessWritesToIt) {
  const RunLock lock(path_);
  EXPECT_THAT(reopening(recipe_), throws<InputError>("is writing to this run"));
}

TEST_F(ReopenedRun, GoesOnAsIfItHadNeverBeenStopped) {
  train_for(10);
  const auto uninterrupted = snapshot_->weights;
  begin(recipe_, true);
  train_for(7);
  lock_.reset();
  const auto lock = reopen_run(path_, recipe_, *task_);
  SmallRun run(recipe_);
  run.trainer.restore(latest_checkpoint(path_)->checkpoint);
  run.trainer.run();
  EXPECT_TRUE(equal_tensors(run.weights(), uninterrupted));
}

}  // namespace
}  // namespace attend::train
