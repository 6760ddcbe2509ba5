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
#include <utility>
#include <vector>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

/// The files of a run, without the lock file. The recipe is the last one: while it exists, the
/// directory is a run, which can be overwritten.
constexpr std::array kFilesOfRun{
    RunFiles::checkpoints, RunFiles::tensorboard, RunFiles::metrics,      RunFiles::samples,
    RunFiles::embeddings,  EmbeddingFiles::table, EmbeddingFiles::tokens, EmbeddingFiles::config,
    RunFiles::model,       RunFiles::report_text, RunFiles::report_page,  kTokenizerFile,
    kSubwordFile,          kPublishedFile,        RunFiles::data,         RunFiles::summary,
    RunFiles::recipe};

/// Returns a hidden path beside a directory, such as runs/.demo.replaced for runs/demo. Commands
/// that look for runs skip hidden directories, and users do not name runs so.
fs::path beside(const fs::path& directory, const char* suffix) {
  auto whole = directory.has_filename() ? directory : directory.parent_path();  // runs/demo/
  std::error_code missing;
  const bool has_dots =
      std::ranges::any_of(whole, [](const fs::path& part) { return part == "." || part == ".."; });
  if (has_dots || fs::is_symlink(whole, missing)) whole = fs::weakly_canonical(fs::absolute(whole));
  return whole.parent_path() / fmt::format(".{}{}", whole.filename().string(), suffix);
}

/// An unfinished run that is overwritten while there is still the run that it has replaced. Deleted
/// when the new run has a checkpoint.
fs::path unfinished_path(const fs::path& directory) {
  return beside(directory, ".unfinished");
}

/// True if `file` is a temporary copy of a run's file, left by a killed process.
bool is_temporary_file(const fs::path& file) {
  const auto name = file.filename().string();
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

bool has_replaced(const fs::path& directory) {
  return RunDirectory::exists(RunDirectory::replaced(directory));
}

/// Throws InputError if a directory must not be overwritten, or contains and replaces no run.
void check_can_overwrite(const fs::path& directory, bool overwrite) {
  const bool is_run = RunDirectory::exists(directory) || has_replaced(directory);
  if (const auto runs = is_run ? "" : runs_clause(directory); !runs.empty()) {
    throw InputError(
        fmt::format("{}: found {}, expected a new directory or a run: choose another directory",
                    directory.string(), runs));
  }
  if (!overwrite) {
    throw InputError(fmt::format("{} {}: choose another directory{}{}", directory.string(),
                                 is_free(directory) ? "contained a run" : "exists and is not empty",
                                 is_run ? ", or overwrite it (`overwrite`)" : "",
                                 RunDirectory::replaced_clause(directory)));
  }
  if (is_run) return;
  throw InputError(fmt::format(
      "{} cannot be overwritten: not a run directory, it has no {}; choose another directory",
      directory.string(), RunFiles::recipe));
}

void delete_run(const fs::path& directory) {
  for (const auto* name : kFilesOfRun) fs::remove_all(directory / name);
}

/// Moves the files that do not belong to a run. Does not overwrite files in `to`.
void move_files_of_user(const fs::path& from, const fs::path& to) {
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(from)) names.push_back(entry.path().filename());
  for (const auto& name : names) {
    if (!is_file_of_run(name) && !fs::exists(to / name)) fs::rename(from / name, to / name);
  }
}

/// Replaces the directory of a run by `replaced`, which then has its name.
void restore(const fs::path& replaced, const fs::path& directory) {
  if (fs::exists(directory)) {
    delete_run(directory);
    move_files_of_user(directory, replaced);
    fs::remove(directory / RunLock::kFile);
    fs::remove(directory);
  }
  fs::rename(replaced, directory);
}

/// Throws InputError if the working directory of this process is in `directory`, since its relative
/// paths would be those of the replaced run.
void check_is_not_working_directory(const fs::path& directory) {
  const auto inside = fs::current_path().lexically_relative(fs::canonical(directory));
  if (inside.begin()->string() == "..") return;
  throw InputError(
      fmt::format("{} is the working directory, or contains it, so it cannot be overwritten: "
                  "run the program in another directory",
                  directory.string()));
}

}  // namespace

NewRunDirectory::NewRunDirectory(const fs::path& directory, bool overwrite)
    : directory_(fs::absolute(directory)) {
  RunDirectory::check_can_create(directory, overwrite);
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error || !fs::is_directory(directory_)) {
    throw InputError(fmt::format("{} cannot be created: {}", directory_.string(),
                                 error ? error.message() : "a file with this name exists"));
  }
  lock_ = std::make_shared<RunLock>(directory_);
  const auto replaced = RunDirectory::replaced(directory_);
  const auto unfinished = unfinished_path(directory_);
  // The directory of the replaced run may have been removed or moved since.
  if (!has_replaced(directory_) && RunDirectory::exists(unfinished))
    fs::rename(unfinished, replaced);
  // Checks the directory again, since another process may have created a run between the first
  // check and the lock.
  if (is_free(directory_) && !has_replaced(directory_)) return;
  check_can_overwrite(directory_, overwrite);
  // A finished run deletes the run that it replaces, but may have been killed before.
  if (fs::exists(directory_ / RunFiles::summary)) {
    delete_replaced(directory_);
    if (has_replaced(directory_)) {
      throw InputError(fmt::format("{}: a process trains this run, which {} has replaced: move it",
                                   replaced.string(), directory_.string()));
    }
  }
  // A run without a checkpoint, which has replaced an unfinished run, is less than that one.
  const bool has_weights = has_checkpoint(directory_) ||
                           (fs::exists(directory_ / RunFiles::model) && !fs::exists(unfinished));
  if (has_weights) {
    fs::remove_all(unfinished);
    replaced_ = has_replaced(directory_) ? unfinished : replaced;
    replace();
  } else {
    delete_run(directory_);
    replaced_ = RunDirectory::exists(unfinished) ? unfinished : replaced;
    // A process may have been killed before it moved these files.
    if (RunDirectory::exists(replaced_)) move_files_of_user(replaced_, directory_);
  }
}

void NewRunDirectory::replace() {
  if (fs::exists(replaced_)) {
    throw InputError(
        fmt::format("{} contains files, but no run that was overwritten: move them to another "
                    "folder",
                    replaced_.string()));
  }
  // The target is beside the directory itself if `directory_` is a symbolic link.
  const auto whole = fs::canonical(directory_);
  std::error_code error;
  fs::rename(whole, replaced_, error);
  if (error) {
    throw InputError(fmt::format(
        "{} cannot be overwritten: it cannot be renamed to {}: {}; choose another directory",
        directory_.string(), replaced_.string(), error.message()));
  }
  bool is_own = false;  // false: another process has created a run in the meantime
  try {
    is_own = fs::create_directory(whole);
    lock_ = std::make_shared<RunLock>(directory_);
    move_files_of_user(replaced_, directory_);
  } catch (...) {
    if (is_own) restore(replaced_, whole);
    throw;
  }
}

NewRunDirectory::~NewRunDirectory() {
  try {
    lock_->check_in_place("");  // throws if the directory is no longer that of the new run
    if (has_checkpoint(directory_))
      fs::remove_all(unfinished_path(directory_));
    else if (!replaced_.empty() && RunDirectory::exists(replaced_))
      restore(replaced_, fs::canonical(directory_));
  } catch (...) {  // the run remains in the folder, which the messages name
  }
}

void delete_replaced(const fs::path& directory) {
  fs::remove_all(unfinished_path(directory));
  const auto replaced = RunDirectory::replaced(directory);
  const auto deleted = beside(directory, ".deleted");
  std::error_code ignored;
  fs::remove_all(deleted, ignored);
  // A process may train the replaced run further.
  if (!RunDirectory::exists(replaced) || RunDirectory::is_locked(replaced)) return;
  fs::rename(replaced, deleted);
  fs::remove_all(deleted, ignored);
}

std::string RunDirectory::replaced_clause(const fs::path& directory) {
  if (!has_replaced(directory)) return {};
  return fmt::format(
      "; {} contains the run that was to be overwritten: use this directory, or overwrite {}",
      RunDirectory::replaced(directory).string(), directory.string());
}

fs::path RunDirectory::replaced(const fs::path& path) {
  return beside(path, ".replaced");
}

std::string runs_clause(const fs::path& directory) {
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(directory, missing)) {
    const auto name = entry.path().filename().string();
    if (RunDirectory::exists(entry.path()) && !name.starts_with('.')) names.push_back(name);
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

void RunDirectory::check_can_create(const fs::path& path, bool overwrite) {
  if (is_free(path) && !has_replaced(path)) return;
  check_can_overwrite(path, overwrite);
  if (fs::exists(path)) check_is_not_working_directory(path);
  if (fs::exists(path / RunLock::kFile)) RunLock{path};  // throws if another process has the lock
}

bool is_file_of_run(const std::string& name) {
  return name == RunLock::kFile || is_temporary_file(name) ||
         std::ranges::any_of(kFilesOfRun, [&](const char* own) { return name == own; });
}

}  // namespace attend::train
