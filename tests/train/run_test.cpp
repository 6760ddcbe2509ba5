#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/io/files.h"
#include "attend/train/senses_task.h"
#include "attend/train/text_task.h"
#include "attend/train/tokenizers.h"
#include "support/temporary_directory.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class RunDirectory : public testing::Test {
 protected:
  RunDirectory() {
    create_run_directory(path_, recipe_, false);
    save_run(path_, recipe_, task_.vocabulary(), model_, Outcome{});
  }

  static Recipe narrow_recipe() {
    auto recipe = SensesTask::defaults();
    recipe.stack().embed_dim = 8;
    return recipe;
  }

  TemporaryDirectory directory_;
  fs::path path_ = directory_ / "deep" / "run";
  Recipe recipe_ = narrow_recipe();
  SensesTask task_{recipe_};
  LanguageModel model_ = make_model(recipe_, task_.vocabulary());
};

TEST_F(RunDirectory, LoadsWhatWasSaved) {
  create_run_directory(path_, recipe_, true);
  save_run(path_, recipe_, task_.vocabulary(), model_, Outcome{});
  auto run = load_run(path_);
  EXPECT_FALSE(run.model->is_training());
  EXPECT_EQ(run.tokenizer->size(), task_.vocabulary().size());
  const auto tokens = torch::randint(run.tokenizer->size(), {2, 9}, torch::kLong);
  EXPECT_TRUE(run.model(tokens).equal(model_(tokens)));
}

TEST_F(RunDirectory, KeepsSubwords) {
  const auto tokenizer = make_tokenizer(TextUnit::subword, "some words and some more", 260);
  const auto model = make_model(recipe_, *tokenizer);
  EXPECT_EQ(model->config.vocab_size, 260);
  create_run_directory(path_, recipe_, true);
  save_run(path_, recipe_, *tokenizer, model, Outcome{});
  EXPECT_EQ(load_run(path_).tokenizer->files(), tokenizer->files());
}

TEST_F(RunDirectory, IsNotReplacedUnlessAsked) {
  EXPECT_THAT([&] { create_run_directory(path_, recipe_, false); },
              ThrowsMessage<InputError>(HasSubstr("exists")));
  create_run_directory(path_, recipe_, true);
  EXPECT_FALSE(fs::exists(path_ / RunFiles::model));
}

TEST_F(RunDirectory, OneThatDidNotFinishIsNamedAndCanBeReplaced) {
  create_run_directory(path_, recipe_, true);  // as a run that was stopped leaves it
  replace_file(path_ / RunFiles::metrics, "{}\n");
  EXPECT_THAT([&] { load_run(path_); }, ThrowsMessage<InputError>(HasSubstr("did not finish")));
  EXPECT_NO_THROW(create_run_directory(path_, recipe_, true));
}

TEST_F(RunDirectory, AnEmptyOneIsTaken) {
  fs::create_directory(directory_ / "empty");
  EXPECT_NO_THROW(create_run_directory(directory_ / "empty", recipe_, false));
  replace_file(directory_ / "file", "mine");
  EXPECT_THROW(create_run_directory(directory_ / "file", recipe_, true), InputError);
  EXPECT_EQ(read_bytes(directory_ / "file"), "mine");
}

TEST_F(RunDirectory, ATextThatHasChangedIsNoticed) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "some words and more ";
  replace_file(directory_ / "text", text);
  Recipe recipe = TextTask::defaults();
  recipe.text = (directory_ / "text").string();
  recipe.model = recipe_.model;
  const TextTask task(recipe);
  create_run_directory(path_, recipe, true);
  save_run(path_, recipe, task.vocabulary(), make_model(recipe, task.vocabulary()), Outcome{});
  const auto run = load_run(path_);
  EXPECT_NO_THROW(task_of(run));
  std::replace(text.begin(), text.end(), 'w', 'W');
  replace_file(directory_ / "text", text);
  EXPECT_THAT([&] { task_of(run); }, ThrowsMessage<InputError>(HasSubstr("text: its tokens")));
}

TEST_F(RunDirectory, ReplacingLeavesForeignFilesAlone) {
  replace_file(path_ / "notes.txt", "mine");
  create_run_directory(path_, recipe_, true);
  EXPECT_EQ(read_bytes(path_ / "notes.txt"), "mine");

  const auto foreign = directory_ / "foreign";
  fs::create_directory(foreign);
  replace_file(foreign / "model.safetensors", "mine");
  EXPECT_THAT([&] { create_run_directory(foreign, recipe_, true); },
              ThrowsMessage<InputError>(HasSubstr("it is left alone")));
  EXPECT_EQ(read_bytes(foreign / "model.safetensors"), "mine");
}

TEST_F(RunDirectory, LoadingNamesWhatIsMissing) {
  EXPECT_THAT([&] { load_run(directory_ / "none"); },
              ThrowsMessage<InputError>(HasSubstr("no such run directory")));
  fs::remove(path_ / "model.safetensors");
  EXPECT_THAT([&] { load_run(path_); },
              ThrowsMessage<InputError>(HasSubstr("model.safetensors: no such file")));
}

TEST_F(RunDirectory, DamagedFilesAreNamed) {
  replace_file(path_ / RunFiles::vocabulary, "{}");
  EXPECT_THAT([&] { load_run(path_); },
              ThrowsMessage<InputError>(HasSubstr("tokenizer.json: not a tokenizer")));
}

TEST_F(RunDirectory, WeightsOfAnotherModelAreRefused) {
  auto wider = recipe_;
  wider.stack().embed_dim = 16;
  replace_file(path_ / RunFiles::recipe, to_toml(wider));
  EXPECT_THAT([&] { load_run(path_); },
              ThrowsMessage<InputError>(HasSubstr("model.safetensors: the weights do not fit")));
}

}  // namespace
}  // namespace attend::train
