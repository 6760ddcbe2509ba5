// The files of a run, and the checks of a directory before a run is created in it.
#include "train/run_files.h"

#include "attend/input_error.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tokenizers.h"
#include "attend/train/checkpoint_store.h"
#include "attend/train/embedding_files.h"
#include "attend/train/run_directory.h"
#include "train/run_lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

/// The files of a run, in the order in which `OverwriteGuard` moves them to the subfolder
/// `replaced`. The recipe is moved last: if `replaced` contains a recipe, all files have been
/// moved.
constexpr std::array kFilesOfRun{
    RunFiles::checkpoints,  RunFiles::tensorboard,  RunFiles::metrics, EmbeddingFiles::table,
    EmbeddingFiles::tokens, EmbeddingFiles::config, RunFiles::model,   kTokenizerFile,
    kSubwordFile,           RunFiles::data,         RunFiles::summary, RunFiles::recipe};

/// The name of the folder `replaced` while it is deleted.
constexpr const char* kDeleted = "replaced.tmp";

/// True if `file` is a temporary copy of a run's file, left by a killed process.
bool is_temporary_file(const fs::path& file) {
  const auto name = file.filename().string();
  if (name == kDeleted) return true;
  return name.ends_with(".tmp") && std::ranges::any_of(kFilesOfRun, [&](const char* whole) {
           return name.starts_with(fmt::format("{}.", whole));
         });
}

/// True if a directory contains files other than the files that an interrupted
/// `RunDirectory::create` leaves.
bool is_taken(const fs::path& directory) {
  std::error_code missing;
  if (!fs::exists(directory, missing)) return false;
  // `create` writes the lock file first. Without a lock file, all files belong to the user.
  if (!fs::exists(directory / RunLock::kFile, missing)) return !fs::is_empty(directory, missing);
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    const auto name = entry.path().filename();
    if (name != RunLock::kFile && name != RunFiles::data && name != kTokenizerFile &&
        name != kSubwordFile && !is_temporary_file(name)) {
      return true;
    }
  }
  return false;
}

/// True if a run can be evaluated or resumed.
bool has_results(const fs::path& directory) {
  return fs::exists(directory / RunFiles::model) ||
         !CheckpointStore(directory / RunFiles::checkpoints).latest().empty();
}

/// A folder `replaced` without a recipe is what an interrupted move leaves.
bool replaced_is_complete(const fs::path& directory) {
  return RunDirectory::exists(directory / RunFiles::replaced);
}

/// Throws InputError if a directory contains no run, neither itself nor in `replaced`.
void check_is_run(const fs::path& directory) {
  if (RunDirectory::exists(directory) || replaced_is_complete(directory)) return;
  throw InputError(fmt::format(
      "{} cannot be overwritten: not a run directory, it has no {}; choose another directory",
      directory.string(), RunFiles::recipe));
}

void delete_run(const fs::path& directory) {
  for (const auto* name : kFilesOfRun) fs::remove_all(directory / name);
}

/// Moves the files of a run, those that exist.
template <typename Names>
void move_files(const fs::path& from, const fs::path& to, const Names& names) {
  for (const auto* name : names) {
    if (fs::exists(from / name)) fs::rename(from / name, to / name);
  }
}

/// Moves the files in `replaced` back, the recipe first.
void restore_replaced(const fs::path& directory) {
  const auto replaced = directory / RunFiles::replaced;
  move_files(replaced, directory, kFilesOfRun | std::views::reverse);
  std::error_code not_empty;
  fs::remove(replaced, not_empty);
}

}  // namespace

OverwriteGuard::OverwriteGuard(fs::path directory) : directory_(std::move(directory)) {
  check_is_run(directory_);
  const auto replaced = directory_ / RunFiles::replaced;
  // A finished run deletes `replaced`, but may have been killed before.
  if (fs::exists(directory_ / RunFiles::summary) && replaced_is_complete(directory_))
    delete_replaced(directory_);
  if (!replaced_is_complete(directory_)) restore_replaced(directory_);  // if a move was interrupted
  if (replaced_is_complete(directory_) || !has_results(directory_)) {
    delete_run(directory_);
    return;
  }
  try {
    fs::create_directory(replaced);
    move_files(directory_, replaced, kFilesOfRun);
  } catch (...) {
    restore_replaced(directory_);
    throw;
  }
}

OverwriteGuard::~OverwriteGuard() {
  try {
    if (!replaced_is_complete(directory_) || has_results(directory_)) return;
    delete_run(directory_);
    restore_replaced(directory_);
  } catch (...) {  // the files remain in `replaced`, which the messages name
  }
}

void undo_interrupted_overwrite(const fs::path& directory) {
  if (!fs::exists(directory / RunFiles::replaced) || replaced_is_complete(directory)) return;
  const RunLock lock(directory);
  restore_replaced(directory);
}

void delete_replaced(const fs::path& directory) {
  const auto replaced = directory / RunFiles::replaced;
  if (!fs::exists(replaced)) return;
  fs::remove_all(directory / kDeleted);
  fs::rename(replaced, directory / kDeleted);
  fs::remove_all(directory / kDeleted);
}

std::string replaced_clause(const fs::path& directory) {
  const auto replaced = directory / RunFiles::replaced;
  std::error_code missing;
  if (!fs::exists(replaced, missing)) return {};
  return fmt::format("; {} contains the run that was to be overwritten", replaced.string());
}

void remove_temporary_files(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (is_temporary_file(entry.path())) files.push_back(entry.path());
  }
  for (const auto& file : files) fs::remove_all(file);
}

bool must_be_replaced(const fs::path& directory, bool overwrite) {
  if (!is_taken(directory)) return false;
  if (overwrite) return true;
  throw InputError(
      fmt::format("{} exists and is not empty: choose another directory, or overwrite it (flag "
                  "--overwrite, argument `overwrite`){}",
                  directory.string(), replaced_clause(directory)));
}

void check_can_create(const fs::path& directory, bool overwrite) {
  if (!must_be_replaced(directory, overwrite)) return;
  check_is_run(directory);
  if (fs::exists(directory / RunLock::kFile))
    RunLock{directory};  // throws if another process has the lock
}

bool is_file_of_run(const std::string& name) {
  return name == RunLock::kFile || name == RunFiles::replaced || is_temporary_file(name) ||
         std::ranges::any_of(kFilesOfRun, [&](const char* own) { return name == own; });
}

}  // namespace attend::train
