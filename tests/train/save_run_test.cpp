#include "attend/train/save_run.h"

#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "support/run_directory.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

class SaveRunTest : public RunDirectoryTest {
 protected:
  SaveRunTest() { train_for(4); }

  auto trained() const { return RunDirectory::open(path_).load(); }

  const fs::path copy_ = directory_ / "copy";
};

TEST_F(SaveRunTest, LoadReturnsAnEqualRun) {
  const auto run = trained();
  save_run(run, copy_);
  const auto loaded = RunDirectory::open(copy_).load();
  EXPECT_EQ(to_toml(loaded.recipe), to_toml(run.recipe));
  EXPECT_EQ(loaded.tokenizer->files(), run.tokenizer->files());
  EXPECT_EQ(loaded.classes, run.classes);
  EXPECT_EQ(loaded.data_checksum, run.data_checksum);
  for (const auto& [name, tensor] : state_dict(module_of(loaded.model)))
    EXPECT_TRUE(tensor.equal(state_dict(module_of(run.model)).at(name))) << name;
}

TEST_F(SaveRunTest, ReplacesARunOnlyWithOverwrite) {
  auto run = trained();
  save_run(run, copy_);
  run.recipe.training.lr = 0.5;
  EXPECT_THAT([&] { save_run(run, copy_); }, throws<InputError>("exists and is not empty"));
  EXPECT_NE(RunDirectory::open(copy_).recipe().training.lr, 0.5);
  save_run(run, copy_, /*overwrite=*/true);
  EXPECT_EQ(RunDirectory::open(copy_).recipe().training.lr, 0.5);
  EXPECT_FALSE(fs::exists(RunDirectory::replaced(copy_)));
}

TEST_F(SaveRunTest, KeepsFoldersThatAreNoRuns) {
  fs::create_directory(copy_);
  replace_file(copy_ / "notes.txt", "mine");
  EXPECT_THROW(save_run(trained(), copy_, /*overwrite=*/true), InputError);
  EXPECT_EQ(read_bytes(copy_ / "notes.txt"), "mine");
  EXPECT_FALSE(RunDirectory::exists(copy_));
}

}  // namespace
}  // namespace attend::train
