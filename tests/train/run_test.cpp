#include "attend/train/run.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "io/files.h"
#include "support/run_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

TEST_F(RunDirectory, LoadsWhatWasSaved) {
  train_for(4);
  auto run = load_run(path_);
  EXPECT_FALSE(module_of(run.model).is_training());
  EXPECT_EQ(run.tokenizer->files(), task_->tokenizer().files());
  EXPECT_EQ(to_toml(run.recipe), to_toml(recipe_));
  EXPECT_EQ(evaluate(run.model, *task_of(run)).loss, outcome_.state.best->loss);
}

TEST_F(RunDirectory, LoadsTheBestWeightsOrTheLast) {
  train_for(6);  // the last evaluation is after four
  const auto of = [](const auto& run) { return state_dict(module_of(run.model)); };
  EXPECT_TRUE(equal_tensors(of(load_run(path_, Weights::last)), snapshot_->weights));
  EXPECT_FALSE(equal_tensors(of(load_run(path_)), snapshot_->weights));
}

TEST_F(RunDirectory, LoadsAClassifierWithTheNamesOfItsClasses) {
  begin(small_recipe("balanced-brackets"), true);
  train_for(4);
  const auto run = load_run(path_);
  EXPECT_THAT(run.classes, testing::ElementsAre("balanced", "unbalanced"));
  EXPECT_NO_THROW(task_of(run));
}

TEST_F(RunDirectory, ThatReachedNoEvaluationSaysHowToGoOn) {
  EXPECT_THAT([&] { load_run(path_); },
              throws<InputError>("no evaluation has been reached yet: go on with"));
  EXPECT_THAT([&] { load_run(path_, Weights::last); },
              throws<InputError>("there is no checkpoint yet"));
  EXPECT_FALSE(latest_checkpoint(path_).has_value());
}

TEST_F(RunDirectory, WeightsThatHaveChangedAreNoticed) {
  train_for(4);
  const auto file = path_ / RunFiles::model;
  auto bytes = read_bytes(file);
  bytes.back() ^= 1;
  replace_file(file, bytes);
  EXPECT_THAT([&] { load_run(path_); }, throws<InputError>("model.safetensors: damaged"));
}

TEST_F(RunDirectory, ATextThatHasChangedIsNoticed) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "some words and more ";
  begin_with_text(text);
  train_for(4);
  const auto run = load_run(path_);
  EXPECT_NO_THROW(task_of(run));
  replace_file(directory_ / "text", std::string(text.rbegin(), text.rend()));
  EXPECT_THAT([&] { task_of(run); }, throws<InputError>("text: has changed since it was learned"));
  std::replace(text.begin(), text.end(), 'w', 'W');
  replace_file(directory_ / "text", text);
  EXPECT_THAT([&] { task_of(run); }, throws<InputError>("text: its tokens"));
}

TEST_F(RunDirectory, LoadingNamesWhatIsMissing) {
  train_for(4);
  finish();
  for (const auto* name : {RunFiles::model, kTokenizerFile, RunFiles::data}) {
    fs::remove(path_ / name);
    EXPECT_THAT([&] { load_run(path_); }, throws<InputError>((path_ / name).c_str()));
    EXPECT_THAT([&] { load_run(path_); }, throws<InputError>("no such file"));
  }
}

TEST_F(RunDirectory, IsNoneWithoutARecipe) {
  constexpr const char* kNone = "no such run directory: there is no recipe.toml in it";
  EXPECT_THAT([&] { load_run(directory_ / "none"); }, throws<InputError>(kNone));
  EXPECT_THAT([&] { recipe_of_run(path_ / RunFiles::data); }, throws<InputError>(kNone));
  fs::remove(path_ / RunFiles::recipe);
  EXPECT_THAT([&] { load_run(path_, Weights::last); }, throws<InputError>(kNone));
}

TEST_F(RunDirectory, KnowsItsOwnFiles) {
  train_for(4);
  finish();
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    EXPECT_TRUE(is_file_of_run(path_, entry.path())) << entry.path();
  }
  EXPECT_TRUE(is_file_of_run(path_, path_ / "x" / ".." / RunFiles::data));
  EXPECT_TRUE(is_file_of_run(fs::relative(path_), path_ / RunFiles::replaced / "x.pt"));
  for (const auto& other : {path_ / "x.pt", path_ / "x" / "data.json", path_ / ".." / "data.json",
                            path_, fs::path("data.json")}) {
    EXPECT_FALSE(is_file_of_run(path_, other)) << other;
  }
}

TEST_F(RunDirectory, DamagedFilesAreNamed) {
  train_for(4);
  replace_file(path_ / kTokenizerFile, "{}");
  EXPECT_THAT([&] { load_run(path_); }, throws<InputError>("tokenizer.json: "));
  replace_file(path_ / kTokenizerFile, task_->tokenizer().files().at(kTokenizerFile));
  for (const auto* damaged :
       {"", "{}", "[]", "{\"checksum\": 3, \"classes\": [], \"fixed\": {}}"}) {
    replace_file(path_ / RunFiles::data, damaged);
    EXPECT_THAT([&] { load_run(path_); }, throws<InputError>("data.json: ")) << damaged;
  }
}

TEST_F(RunDirectory, WeightsOfAnotherModelAreRefused) {
  train_for(4);
  auto wider = recipe_;
  wider.stack().embed_dim = 32;
  const auto run = path_.string();
  create_run(run + "-wider", wider, *task_, false);
  for (const auto* name : {RunFiles::recipe, RunFiles::data}) {
    replace_file(path_ / name, read_bytes(fs::path(run + "-wider") / name));
  }
  EXPECT_THAT([&] { load_run(path_); },
              throws<InputError>("model.safetensors: the weights do not fit"));
  RunCheckpointSink(path_).save(*snapshot_);
  EXPECT_THAT([&] { load_run(path_, Weights::last); },
              throws<InputError>("checkpoint/step-000000004: the weights do not fit"));
}

}  // namespace
}  // namespace attend::train
