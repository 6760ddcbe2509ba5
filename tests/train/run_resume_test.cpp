#include "attend/input_error.h"
#include "attend/train/recipe_fields.h"
#include "attend/train/run_directory.h"
#include "io/files.h"
#include "support/run_directory.h"
#include "support/throws.h"
#include "train/run_files.h"
#include "train/run_record.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ResumedRun : public RunDirectoryTest {
 protected:
  ResumedRun() { run_.reset(); }  // releases the lock

  auto resuming(const Recipe& recipe) {
    return [=, this] { RunDirectory::resume(path_, new_record(recipe, *make_task(recipe))); };
  }
};

TEST_F(ResumedRun, MayChangeTrainingValues) {
  auto longer = recipe_;
  longer.training.max_steps = 1000;
  longer.training.lr = 1e-4;
  auto run = RunDirectory::resume(path_, new_record(longer, *task_));
  EXPECT_EQ(to_toml(RunDirectory::open(path_).recipe()), to_toml(recipe_))
      << "resume must not change the recipe";
  run.save_recipe(to_toml(longer));
  EXPECT_EQ(to_toml(RunDirectory::open(path_).recipe()), to_toml(longer));
}

TEST_F(ResumedRun, NeedsCheckpointsIfFinished) {
  train_for(4);
  finish();
  resuming(recipe_)();
  std::filesystem::remove_all(path_ / RunFiles::checkpoints);
  EXPECT_THAT(resuming(recipe_),
              throws<InputError>("the run is finished and has no checkpoints to resume from"));
}

TEST_F(ResumedRun, ErrorListsAllDifferences) {
  auto other = recipe_;
  other.stack().num_layers = 3;
  other.stack().norm = NormKind::rms;
  other.training.optimizer = OptimizerKind::muon;
  other.training.seed = 9;
  other.training.lr = 1e-4;
  EXPECT_THAT(resuming(other),
              testing::ThrowsMessage<InputError>(
                  AllOf(HasSubstr("run was created with other values"),
                        HasSubstr("num_layers: '1' in the run, now '3'"),
                        HasSubstr("norm: 'layer'"), HasSubstr("optimizer: 'adamw'"),
                        HasSubstr("seed: '1' in the run, now '9'"), Not(HasSubstr("lr: ")))));
  EXPECT_EQ(to_toml(RunDirectory::open(path_).recipe()), to_toml(recipe_))
      << "the recipe of the run was changed";
}

TEST_F(ResumedRun, ErrorNamesAnotherTask) {
  EXPECT_THAT(resuming(small_recipe("balanced-brackets")),
              testing::ThrowsMessage<InputError>(
                  AllOf(HasSubstr("task: 'senses' in the run, now 'balanced-brackets'"),
                        HasSubstr("kind: 'language_model'"),
                        HasSubstr("classes: '' in the run, now 'balanced, unbalanced'"),
                        HasSubstr("the tokenizer differs from tokenizer.json of the run"))));
}

TEST_F(ResumedRun, MustNotChangeAnyModelValue) {
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
      } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
        value->push_back(17);
      }
    };
    std::visit(change, field.ref(other));
    // Fields that this kind of model does not have cannot be changed.
    if (value_text(field, other) == value_text(field, recipe_)) continue;
    EXPECT_THAT([&] { RunDirectory::resume(path_, new_record(other, *task_)); },
                throws<InputError>(field.key));
  }
}

TEST_F(ResumedRun, AcceptsAMovedTextButNotAChangedOne) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "some words and more ";
  create_with_text(text);
  run_.reset();
  replace_file(directory_ / "moved", text);
  auto recipe = recipe_;
  recipe.text = {(directory_ / "moved").string()};
  EXPECT_NO_THROW(resuming(recipe)());
  std::swap(text[0], text[1]);  // same characters
  replace_file(directory_ / "moved", text);
  EXPECT_THAT(resuming(recipe), throws<InputError>("checksum of the data: "));
}

TEST_F(ResumedRun, DetectsAChangedRecipe) {
  run_.reset();
  auto text = read_bytes(path_ / RunFiles::recipe);
  const auto heads = text.find("num_heads = 2");
  ASSERT_NE(heads, std::string::npos);
  text.replace(heads, 13, "num_heads = 4");
  replace_file(path_ / RunFiles::recipe, text);
  EXPECT_THAT(
      [&] { RunDirectory::open(path_).recipe(); },
      throws<InputError>("recipe.toml: changed after the run was created: num_heads: '2' in "
                         "the run, now '4'"));
}

TEST_F(ResumedRun, ThrowsWhileAnotherProcessWritesToIt) {
  const RunLock lock(path_);
  EXPECT_THAT(resuming(recipe_), throws<InputError>("is writing to this run"));
}

TEST_F(ResumedRun, EqualsAnUninterruptedRun) {
  train_for(10);
  const auto uninterrupted = checkpoint_->weights;
  create(recipe_, true);
  train_for(7);
  run_.reset();
  const auto directory = RunDirectory::resume(path_, new_record(recipe_, *task_));
  SmallRun run(recipe_);
  run.trainer.restore(RunDirectory::open(path_).checkpoints().load_latest().value());
  run.trainer.run();
  EXPECT_TRUE(equal_tensors(run.weights(), uninterrupted));
}

}  // namespace
}  // namespace attend::train
