// The files of a run, and the checks of a directory before a run is created in it.
#include "train/run_files.h"

#include "attend/input_error.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tokenizer.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/checkpoint_store.h"
#include "attend/train/embedding_files.h"
#include "attend/train/run_directory.h"
#include "train/run_lock.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
    RunFiles::checkpoints, RunFiles::tensorboard, RunFiles::metrics,      RunFiles::samples,
    RunFiles::embeddings,  EmbeddingFiles::table, EmbeddingFiles::tokens, EmbeddingFiles::config,
    RunFiles::model,       RunFiles::report_text, RunFiles::report_page,  kTokenizerFile,
    kSubwordFile,          kPublishedFile,        RunFiles::data,         RunFiles::summary,
    RunFiles::recipe};

/// The name of the folder `replaced` while it is deleted.
constexpr const char* kDeleted = "replaced.tmp";

/// Folder of an unfinished run that is overwritten while `replaced` contains the run that it was to
/// overwrite. Deleted when the new run has a checkpoint.
constexpr const char* kUnfinished = "replaced.unfinished";

/// True if `file` is a temporary copy of a run's file, left by a killed process.
bool is_temporary_file(const fs::path& file) {
  const auto name = file.filename().string();
  if (name == kDeleted) return true;
  return name.ends_with(".tmp") && std::ranges::any_of(kFilesOfRun, [&](const char* whole) {
           return name.starts_with(fmt::format("{}.", whole));
         });
}

/// True if all files in a directory are files that an interrupted `RunDirectory::create` leaves.
bool is_free(const fs::path& directory) {
  std::error_code missing;
  if (!fs::exists(directory, missing)) return true;
  // `create` writes the lock file first. Without a lock file, all files belong to the user.
  if (!fs::exists(directory / RunLock::kFile, missing)) return fs::is_empty(directory, missing);
  return std::ranges::all_of(fs::directory_iterator(directory, missing), [](const auto& entry) {
    const auto name = entry.path().filename();
    return name == RunLock::kFile || name == RunFiles::data || name == kTokenizerFile ||
           name == kSubwordFile || name == kPublishedFile || is_temporary_file(name);
  });
}

bool has_checkpoint(const fs::path& directory) {
  return !CheckpointStore(directory / RunFiles::checkpoints).latest().empty();
}

/// A folder `replaced` without a recipe is what an interrupted move leaves.
bool replaced_is_complete(const fs::path& directory) {
  return RunDirectory::exists(directory / RunFiles::replaced);
}

/// Throws InputError if a directory that is not free must not be overwritten, or contains no run,
/// neither itself nor in `replaced`.
void check_can_overwrite(const fs::path& directory, bool overwrite) {
  const bool is_run = RunDirectory::exists(directory) || replaced_is_complete(directory);
  if (!overwrite) {
    throw InputError(
        fmt::format("{} exists and is not empty: choose another directory{}{}", directory.string(),
                    is_run ? ", or overwrite it (`overwrite`)" : "", replaced_clause(directory)));
  }
  if (is_run) return;
  throw InputError(fmt::format(
      "{} cannot be overwritten: not a run directory, it has no {}; choose another directory",
      directory.string(), RunFiles::recipe));
}

void delete_run(const fs::path& directory) {
  for (const auto* name : kFilesOfRun) fs::remove_all(directory / name);
}

/// Moves the files of a run, those that exist. Does not overwrite files in `to`.
template <typename Names>
void move_files(const fs::path& from, const fs::path& to, const Names& names) {
  for (const auto* name : names) {
    if (fs::exists(from / name) && !fs::exists(to / name)) fs::rename(from / name, to / name);
  }
}

/// Moves the files of a run in `folder`, a subfolder of `directory`, back to `directory`, the
/// recipe first.
void restore(const fs::path& folder, const fs::path& directory) {
  move_files(folder, directory, std::vector(kFilesOfRun.rbegin(), kFilesOfRun.rend()));
  std::error_code ignored;
  fs::remove(folder / RunLock::kFile, ignored);  // exists if the run in `folder` was resumed
  fs::remove(folder, ignored);                   // fails if the folder is not empty
}

}  // namespace

OverwriteGuard::OverwriteGuard(fs::path directory, bool overwrite)
    : directory_(std::move(directory)) {
  if (is_free(directory_)) return;
  check_can_overwrite(directory_, overwrite);
  const auto replaced = directory_ / RunFiles::replaced;
  const auto unfinished = directory_ / kUnfinished;
  // A finished run deletes `replaced`, but may have been killed before.
  if (fs::exists(directory_ / RunFiles::summary) && replaced_is_complete(directory_))
    delete_replaced(directory_);
  // A process may have been killed while it moved files, or before the first checkpoint.
  if (!replaced_is_complete(directory_)) restore(replaced, directory_);
  if (fs::exists(unfinished) && !has_checkpoint(directory_)) {
    if (RunDirectory::exists(unfinished)) delete_run(directory_);
    restore(unfinished, directory_);
  }
  fs::remove_all(unfinished);
  if (!fs::exists(directory_ / RunFiles::model) && !has_checkpoint(directory_)) {
    delete_run(directory_);
    return;
  }
  folder_ = replaced_is_complete(directory_) ? unfinished : replaced;
  if (fs::exists(folder_)) {
    throw InputError(fmt::format(
        "{} contains files, but no run that was overwritten: move them to another folder",
        folder_.string()));
  }
  try {
    fs::create_directory(folder_);
    move_files(directory_, folder_, kFilesOfRun);
  } catch (...) {
    restore(folder_, directory_);
    throw;
  }
}

OverwriteGuard::~OverwriteGuard() {
  try {
    if (has_checkpoint(directory_)) {
      fs::remove_all(directory_ / kUnfinished);
      return;
    }
    if (folder_.empty()) folder_ = directory_ / RunFiles::replaced;
    if (!RunDirectory::exists(folder_)) return;
    delete_run(directory_);
    restore(folder_, directory_);
  } catch (...) {  // the files remain in the folder, which the messages name
  }
}

void undo_interrupted_overwrite(const fs::path& directory) {
  for (const auto* name : {RunFiles::replaced, kUnfinished}) {
    const auto folder = directory / name;
    const auto was_moved = [&](const char* file) {
      return fs::exists(folder / file) && !fs::exists(directory / file);
    };
    if (RunDirectory::exists(folder) || std::ranges::none_of(kFilesOfRun, was_moved)) continue;
    const RunLock lock(directory);
    restore(folder, directory);
  }
}

void delete_replaced(const fs::path& directory) {
  fs::remove_all(directory / kUnfinished);
  const auto replaced = directory / RunFiles::replaced;
  if (!fs::exists(replaced)) return;
  fs::remove_all(directory / kDeleted);
  fs::rename(replaced, directory / kDeleted);
  fs::remove_all(directory / kDeleted);
}

std::string replaced_clause(const fs::path& directory) {
  if (!replaced_is_complete(directory)) return {};
  return fmt::format(
      "; {} contains the run that was to be overwritten: use this directory, or overwrite {}",
      (directory / RunFiles::replaced).string(), directory.string());
}

std::string runs_clause(const fs::path& directory) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    const auto name = entry.path().filename().string();
    if (RunDirectory::exists(entry.path()) && !is_file_of_run(name)) names.push_back(name);
  }
  if (names.empty()) return "";
  std::ranges::sort(names);
  const bool is_sweep =
      std::ranges::all_of(names, [](const auto& name) { return name.find('=') != name.npos; });
  const auto shown = std::min(names.size(), kShown);
  return fmt::format(
      "{} with the runs {}{}", is_sweep ? "a sweep" : "a directory",
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown == names.size() ? "" : fmt::format(" and {} more", names.size() - shown));
}

void remove_temporary_files(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (is_temporary_file(entry.path())) files.push_back(entry.path());
  }
  for (const auto& file : files) fs::remove_all(file);
}

void check_can_create(const fs::path& directory, bool overwrite) {
  if (is_free(directory)) return;
  check_can_overwrite(directory, overwrite);
  if (fs::exists(directory / RunLock::kFile))
    RunLock{directory};  // throws if another process has the lock
}

bool is_file_of_run(const std::string& name) {
  return name == RunLock::kFile || name == RunFiles::replaced || name == kUnfinished ||
         is_temporary_file(name) ||
         std::ranges::any_of(kFilesOfRun, [&](const char* own) { return name == own; });
}

}  // namespace attend::train
