#include "attend/input_error.h"
#include "attend/train/run_directory.h"
#include "io/files.h"
#include "support/run_directory.h"
#include "support/throws.h"
#include "train/run_files.h"
#include "train/run_record.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <map>

namespace attend::train {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

class OverwrittenRun : public RunDirectoryTest {
 protected:
  fs::path replaced_ = RunDirectory::replaced(path_);
};

TEST_F(OverwrittenRun, RequiresOverwrite) {
  EXPECT_THAT([&] { create(recipe_, false); },
              throws<InputError>("run exists and is not empty: choose another"));
  EXPECT_NO_THROW(create(recipe_, true));
}

TEST_F(OverwrittenRun, IsKeptUntilTheNewRunIsFinished) {
  train_for(4);
  finish();
  replace_file(path_ / RunFiles::metrics, "{}\n");
  const auto old_model = read_bytes(path_ / RunFiles::model);
  const auto old_summary = read_bytes(path_ / RunFiles::summary);
  auto other = recipe_;
  other.training.seed = 7;
  create(other, true);
  EXPECT_THAT(names_in(path_),
              UnorderedElementsAre(RunLock::kFile, "recipe.toml", "data.json", "tokenizer.json"));
  EXPECT_THAT(
      names_in(replaced_),
      UnorderedElementsAre(RunLock::kFile, "recipe.toml", "data.json", "tokenizer.json",
                           "metrics.jsonl", "model.safetensors", "summary.json", "checkpoint"));
  EXPECT_EQ(read_bytes(replaced_ / RunFiles::model), old_model);
  EXPECT_NO_THROW(RunDirectory::open(replaced_).load());
  train_for(4);
  EXPECT_EQ(read_bytes(replaced_ / RunFiles::summary), old_summary);
  finish();
  EXPECT_FALSE(fs::exists(replaced_));
  EXPECT_EQ(RunDirectory::open(path_).load().recipe.training.seed, 7);
}

TEST_F(OverwrittenRun, IsKeptIfTheNewRunIsOverwrittenUnfinished) {
  train_for(4);
  finish();
  const auto finished = read_bytes(path_ / RunFiles::model);
  auto other = recipe_;
  other.training.seed = 7;
  create(other, true);
  train_for(4);  // never finished
  EXPECT_NE(read_bytes(path_ / RunFiles::model), finished);
  create(other, true);
  EXPECT_EQ(read_bytes(replaced_ / RunFiles::model), finished);
  EXPECT_FALSE(fs::exists(path_ / RunFiles::model));
  EXPECT_FALSE(fs::exists(path_ / RunFiles::checkpoints));
}

TEST_F(OverwrittenRun, DoesNotTouchOtherFiles) {
  replace_file(path_ / "notes.txt", "mine");
  fs::create_directory(path_ / "plots");
  create(recipe_, true);
  EXPECT_EQ(read_bytes(path_ / "notes.txt"), "mine");
  EXPECT_TRUE(fs::exists(path_ / "plots"));

  const auto foreign = directory_ / "foreign";
  fs::create_directory(foreign);
  replace_file(foreign / RunFiles::model, "mine");
  EXPECT_THAT([&] { RunDirectory::create(foreign, new_record(recipe_, *task_), true); },
              throws<InputError>("cannot be overwritten: not a run directory"));
  EXPECT_EQ(read_bytes(foreign / RunFiles::model), "mine");
}

TEST_F(OverwrittenRun, RejectsADirectoryWithoutRecipe) {
  for (const auto* name : {RunFiles::data, kTokenizerFile}) {
    const auto foreign = directory_ / name;
    fs::create_directory(foreign);
    replace_file(foreign / name, "mine");
    EXPECT_THAT([&] { RunDirectory::create(foreign, new_record(recipe_, *task_), false); },
                throws<InputError>("exists and is not empty: choose another directory"));
    EXPECT_EQ(read_bytes(foreign / name), "mine");
    EXPECT_FALSE(fs::exists(foreign / RunLock::kFile));
  }
}

/// Returns {relative path: content} of all files except the lock file.
std::map<std::string, std::string> files_in(const fs::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file() || entry.path().filename() == RunLock::kFile) continue;
    files[entry.path().lexically_relative(directory).string()] = read_bytes(entry.path());
  }
  return files;
}

TEST_F(OverwrittenRun, IsRestoredIfTheNewRunSavesNothing) {
  for (const bool finished : {false, true}) {
    create(recipe_, true);
    train_for(4);
    if (finished) finish();
    const auto before = files_in(path_);
    auto other = recipe_;
    other.training.seed = 7;
    create(other, true);
    EXPECT_EQ(RunDirectory::open(path_).recipe().training.seed, 7);
    run_.reset();
    EXPECT_EQ(files_in(path_), before);
    EXPECT_FALSE(fs::exists(replaced_));
  }
}

TEST_F(OverwrittenRun, IsRestoredIfTheNewRunCannotBeCreated) {
  train_for(4);
  finish();
  const auto before = files_in(path_);
  auto record = new_record(recipe_, *task_);
  record.texts["missing/file"] = "cannot be written: there is no such folder";
  run_.reset();
  EXPECT_THROW(RunDirectory::create(path_, record, true), std::exception);
  EXPECT_EQ(files_in(path_), before);
}

TEST_F(OverwrittenRun, WithoutFinishIsAlsoKept) {
  train_for(4);
  const auto model = read_bytes(path_ / RunFiles::model);
  create(recipe_, true);
  train_for(3);
  run_.reset();
  EXPECT_EQ(read_bytes(replaced_ / RunFiles::model), model);
}

// A kill leaves the directory as it is at any time, here after it was renamed.
TEST_F(OverwrittenRun, IsNotOverwrittenUnaskedAfterAKillInCreate) {
  train_for(4);
  finish();
  const auto before = files_in(path_);
  run_.reset();
  fs::rename(path_, replaced_);
  for (const auto& refused : std::vector<std::function<void()>>{
           [&] { create(recipe_, false); }, [&] { RunDirectory::open(path_); },
           [&] { RunDirectory::resume(path_, new_record(recipe_, *task_)); }}) {
    EXPECT_THAT(refused, throws_naming<InputError>(replaced_.string()));
  }
  EXPECT_NO_THROW(RunDirectory::open(replaced_).load());
  create(recipe_, true);
  EXPECT_EQ(files_in(replaced_), before);
  for (const auto weights : {Weights::best, Weights::last}) {
    EXPECT_THAT([&] { RunDirectory::open(path_).load(weights); },
                throws_naming<InputError>(replaced_.string()));
  }
}

TEST_F(OverwrittenRun, OtherFilesAreInTheDirectoryAgainAfterAKillBeforeTheyWereMoved) {
  train_for(4);
  finish();
  for (const auto* name : {"notes.txt", "plots.csv"}) replace_file(path_ / name, "mine");
  const auto before = files_in(path_);
  run_.reset();
  fs::rename(path_, replaced_);
  fs::create_directory(path_);
  fs::rename(replaced_ / "notes.txt", path_ / "notes.txt");
  create(recipe_, true);
  for (const auto* name : {"notes.txt", "plots.csv"}) {
    EXPECT_EQ(read_bytes(path_ / name), "mine");
    EXPECT_FALSE(fs::exists(replaced_ / name));
  }
  run_.reset();
  EXPECT_EQ(files_in(path_), before);
  EXPECT_FALSE(fs::exists(replaced_));
}

TEST_F(OverwrittenRun, OtherFilesInAFolderReplacedAreNotTouched) {
  train_for(4);
  finish();
  run_.reset();
  fs::create_directory(replaced_);
  replace_file(replaced_ / RunFiles::model, "of the user");
  const auto before = files_in(path_);
  EXPECT_NO_THROW(RunDirectory::open(path_).load());
  EXPECT_THAT([&] { create(recipe_, true); }, throws_naming<InputError>(replaced_.string()));
  EXPECT_EQ(files_in(path_), before);
}

TEST_F(OverwrittenRun, LeavesNoFolderReplacedIfOnlyALockFileIsInIt) {
  train_for(4);
  finish();
  create(recipe_, true);
  { const RunLock left_by_a_resumed_run(replaced_); }
  run_.reset();
  EXPECT_FALSE(fs::exists(replaced_));
  EXPECT_NO_THROW(RunDirectory::open(path_).load());
}

TEST_F(OverwrittenRun, IsNoLongerNamedReplacedWhileItIsDeleted) {
  train_for(4);
  finish();
  run_.reset();
  const auto deleted = path_.parent_path() / ".run.deleted";
  fs::create_directory(deleted);  // left by a process killed in finish()
  replace_file(deleted / RunFiles::model, "old");
  create(recipe_, true);
  EXPECT_NO_THROW(RunDirectory::open(replaced_).load());
  train_for(4);
  finish();
  EXPECT_FALSE(fs::exists(deleted));
}

TEST_F(OverwrittenRun, IsThatOfASymbolicLink) {
  train_for(4);
  finish();
  run_.reset();
  const auto before = files_in(path_);
  const auto link = directory_ / "link";
  fs::create_directory_symlink(path_, link);
  {
    const auto run = RunDirectory::create(link, new_record(recipe_, *task_), true);
    EXPECT_EQ(files_in(replaced_), before);
    EXPECT_EQ(RunDirectory::replaced(link), replaced_);
  }
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(files_in(link), before);
}

TEST_F(OverwrittenRun, IsNotTheWorkingDirectory) {
  train_for(4);
  finish();
  run_.reset();
  fs::create_directory(path_ / "plots");
  const auto before = files_in(path_);
  const auto working_directory = fs::current_path();
  for (const auto& inside : {path_, path_ / "plots"}) {
    fs::current_path(inside);
    for (const auto& path : {path_, inside == path_ ? fs::path(".") : fs::path("..")}) {
      EXPECT_THAT([&] { RunDirectory::create(path, new_record(recipe_, *task_), true); },
                  throws_naming<InputError>(path.string()));
    }
  }
  fs::current_path(working_directory);
  EXPECT_EQ(files_in(path_), before);
}

TEST_F(OverwrittenRun, OfAnUnfinishedRunIsRestoredIfTheFirstReplacedRunWasRemoved) {
  const auto unfinished = path_.parent_path() / ".run.unfinished";
  train_for(4);
  finish();
  create(recipe_, true);
  train_for(4);
  run_.reset();
  fs::rename(path_,
             unfinished);     // a process was killed after it had overwritten the unfinished run
  fs::remove_all(replaced_);  // the user has moved the finished run
  create(recipe_, true);
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_TRUE(RunDirectory::open(replaced_).checkpoints().load_latest().has_value());
  run_.reset();
  EXPECT_TRUE(RunDirectory::open(path_).checkpoints().load_latest().has_value());
}

TEST_F(OverwrittenRun, IsNotRestoredOverTheRunOfAnotherProcess) {
  train_for(4);
  finish();
  create(recipe_, true);
  fs::remove_all(path_);
  fs::create_directory(path_);
  replace_file(path_ / RunFiles::recipe, "of another process");
  run_.reset();
  EXPECT_EQ(read_bytes(path_ / RunFiles::recipe), "of another process");
  EXPECT_NO_THROW(RunDirectory::open(replaced_).load());
}

TEST_F(OverwrittenRun, IsNotDeletedWhileItIsTrained) {
  train_for(4);
  finish();
  create(recipe_, true);
  train_for(4);
  {
    const RunLock other_process(replaced_);
    finish();
    EXPECT_NO_THROW(RunDirectory::open(replaced_).load());
    EXPECT_THAT([&] { create(recipe_, true); }, throws_naming<InputError>(replaced_.string()));
    EXPECT_NO_THROW(RunDirectory::open(path_).load());
  }
  finish();
  EXPECT_FALSE(fs::exists(replaced_));
}

TEST_F(OverwrittenRun, CreateAcceptsAnEmptyDirectoryButNotAFile) {
  fs::create_directory(directory_ / "empty");
  EXPECT_NO_THROW(RunDirectory::create(directory_ / "empty", new_record(recipe_, *task_), false));
  replace_file(directory_ / "file", "mine");
  for (const auto* path : {"file", "file/below"}) {
    EXPECT_THROW(RunDirectory::create(directory_ / path, new_record(recipe_, *task_), true),
                 InputError)
        << path;
  }
  EXPECT_EQ(read_bytes(directory_ / "file"), "mine");
}

TEST_F(OverwrittenRun, FinishWritesTheSummary) {
  train_for(6);
  finish();
  const auto summary = nlohmann::json::parse(read_bytes(path_ / RunFiles::summary));
  EXPECT_EQ(summary.at("task"), "senses");
  EXPECT_EQ(summary.at("steps"), 6);
  EXPECT_EQ(summary.at("best_step"), 4);
  EXPECT_EQ(summary.at("val_loss"), result_.state.best->loss);
  EXPECT_EQ(summary.at("val_accuracy"), result_.state.best->accuracy());
  EXPECT_FALSE(summary.contains("skipped_steps"));
}

}  // namespace
}  // namespace attend::train
