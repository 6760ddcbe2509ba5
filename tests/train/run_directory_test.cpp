#include "attend/train/run_directory.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "io/files.h"
#include "support/run_directory.h"
#include "support/throws.h"
#include "train/run_content.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

TEST_F(RunDirectoryTest, LoadsWhatWasSaved) {
  train_for(4);
  auto run = RunDirectory::open(path_).load();
  EXPECT_FALSE(module_of(run.model).is_training());
  EXPECT_EQ(run.tokenizer->files(), task_->tokenizer().files());
  EXPECT_EQ(to_toml(run.recipe), to_toml(recipe_));
  EXPECT_EQ(evaluate(run.model, *run.make_task()).loss, result_.state.best->loss);
}

TEST_F(RunDirectoryTest, LoadKeepsTheRandomNumberGenerator) {
  train_for(4);
  torch::manual_seed(123);
  const auto expected = torch::rand({3});
  torch::manual_seed(123);
  RunDirectory::open(path_).load();
  EXPECT_TRUE(torch::rand({3}).equal(expected));
}

TEST_F(RunDirectoryTest, LoadsBestOrLastWeights) {
  train_for(6);  // the last evaluation is after 4 steps
  const auto of = [](const auto& run) { return state_dict(module_of(run.model)); };
  EXPECT_TRUE(
      equal_tensors(of(RunDirectory::open(path_).load(Weights::last)), checkpoint_->weights));
  EXPECT_FALSE(equal_tensors(of(RunDirectory::open(path_).load()), checkpoint_->weights));
}

TEST_F(RunDirectoryTest, LoadsTheClassNamesOfAClassifier) {
  create(small_recipe("balanced-brackets"), true);
  train_for(4);
  const auto run = RunDirectory::open(path_).load();
  EXPECT_THAT(run.classes, testing::ElementsAre("balanced", "unbalanced"));
  EXPECT_NO_THROW(run.make_task());
}

TEST_F(RunDirectoryTest, LoadWithoutEvaluationSaysHowToContinue) {
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws<InputError>("no best weights: the run has no evaluation with a finite "
                                 "validation loss yet; resume the run, or load Weights::last"));
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); },
              throws<InputError>("no checkpoint has been saved yet"));
  EXPECT_FALSE(RunDirectory::open(path_).latest_checkpoint().has_value());
}

TEST_F(RunDirectoryTest, DetectsDamagedWeights) {
  train_for(4);
  const auto file = path_ / RunFiles::model;
  auto bytes = read_bytes(file);
  bytes.back() ^= 1;
  replace_file(file, bytes);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws<InputError>("model.safetensors: damaged"));
}

TEST_F(RunDirectoryTest, DetectsAChangedText) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "some words and more ";
  create_with_text(text);
  train_for(4);
  const auto run = RunDirectory::open(path_).load();
  EXPECT_NO_THROW(run.make_task());
  replace_file(directory_ / "text", std::string(text.rbegin(), text.rend()));
  EXPECT_THAT([&] { run.make_task(); }, throws<InputError>("text: changed since training"));
  std::replace(text.begin(), text.end(), 'w', 'W');
  replace_file(directory_ / "text", text);
  EXPECT_THAT([&] { run.make_task(); },
              throws<InputError>("differs from the vocabulary of the run"));
}

TEST_F(RunDirectoryTest, LoadNamesTheMissingFile) {
  train_for(4);
  finish();
  for (const auto* name : {RunFiles::model, kTokenizerFile, RunFiles::data}) {
    fs::remove(path_ / name);
    EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
                throws<InputError>((path_ / name).c_str()));
    EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, throws<InputError>("no such file"));
  }
}

TEST_F(RunDirectoryTest, RequiresARecipe) {
  constexpr const char* kNone = "not a run directory: it has no recipe.toml";
  EXPECT_THAT([&] { RunDirectory::open(directory_ / "none").load(); }, throws<InputError>(kNone));
  EXPECT_THAT([&] { RunDirectory::open(path_ / RunFiles::data).recipe(); },
              throws<InputError>(kNone));
  fs::remove(path_ / RunFiles::recipe);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); }, throws<InputError>(kNone));
}

TEST_F(RunDirectoryTest, OwnsItsFiles) {
  train_for(4);
  finish();
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    EXPECT_TRUE(RunDirectory::owns(path_, entry.path())) << entry.path();
  }
  EXPECT_TRUE(RunDirectory::owns(path_, path_ / "x" / ".." / RunFiles::data));
  EXPECT_TRUE(RunDirectory::owns(fs::relative(path_), path_ / RunFiles::replaced / "x.pt"));
  for (const auto& other : {path_ / "x.pt", path_ / "x" / "data.json", path_ / ".." / "data.json",
                            path_, fs::path("data.json")}) {
    EXPECT_FALSE(RunDirectory::owns(path_, other)) << other;
  }
}

TEST_F(RunDirectoryTest, LoadNamesDamagedFiles) {
  train_for(4);
  replace_file(path_ / kTokenizerFile, "{}");
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, throws<InputError>("tokenizer.json: "));
  replace_file(path_ / kTokenizerFile, task_->tokenizer().files().at(kTokenizerFile));
  for (const auto* damaged :
       {"", "{}", "[]", "{\"checksum\": 3, \"classes\": [], \"fixed\": {}}"}) {
    replace_file(path_ / RunFiles::data, damaged);
    EXPECT_THAT([&] { RunDirectory::open(path_).load(); }, throws<InputError>("data.json: "))
        << damaged;
  }
}

TEST_F(RunDirectoryTest, LoadThrowsForWeightsOfAnotherModel) {
  train_for(4);
  auto wider = recipe_;
  wider.stack().embed_dim = 32;
  const auto run = path_.string();
  RunDirectory::create(run + "-wider", run_content(wider, *task_), false);
  for (const auto* name : {RunFiles::recipe, RunFiles::data}) {
    replace_file(path_ / name, read_bytes(fs::path(run + "-wider") / name));
  }
  EXPECT_THAT([&] { RunDirectory::open(path_).load(); },
              throws<InputError>("model.safetensors: the state dict does not match"));
  RunDirectory::open(path_).checkpoint_sink()->save(*checkpoint_);
  EXPECT_THAT([&] { RunDirectory::open(path_).load(Weights::last); },
              throws<InputError>("checkpoint/step-000000004: the state dict does not match"));
}

}  // namespace
}  // namespace attend::train
