// The files of a run, and the checks of a directory before a run is created in it.
#include "train/run_files.h"

#include "attend/input_error.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tokenizers.h"
#include "attend/train/embedding_files.h"
#include "attend/train/run_directory.h"
#include "train/run_lock.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

/// The files of a finished run, in the order in which `move_old_run` moves them to the subfolder
/// `replaced`. The recipe is moved near the end, since a directory without a recipe is not a run.
/// The summary is moved last: if `replaced` contains a summary, all files have been moved.
constexpr std::array kFilesOfRun{
    RunFiles::checkpoints,  RunFiles::tensorboard,  RunFiles::metrics, EmbeddingFiles::table,
    EmbeddingFiles::tokens, EmbeddingFiles::config, RunFiles::model,   kTokenizerFile,
    kSubwordFile,           RunFiles::data,         RunFiles::recipe,  RunFiles::summary};

/// True if `file` is a temporary copy of a run's file, left by a killed process.
bool is_temporary_file(const fs::path& file) {
  const auto name = file.filename().string();
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
        name != kSubwordFile && name != RunFiles::replaced && !is_temporary_file(name)) {
      return true;
    }
  }
  return false;
}

/// Throws InputError if a directory is not a run. A directory with a recipe in `replaced` is a run,
/// too: an earlier `move_old_run` was interrupted after it had moved the recipe.
void check_is_run(const fs::path& directory) {
  if (RunDirectory::exists(directory) || RunDirectory::exists(directory / RunFiles::replaced))
    return;
  throw InputError(fmt::format(
      "{} cannot be overwritten: not a run directory, it has no {}; choose another directory",
      directory.string(), RunFiles::recipe));
}

}  // namespace

void remove_temporary_files(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (is_temporary_file(entry.path())) files.push_back(entry.path());
  }
  for (const auto& file : files) fs::remove(file);
}

bool must_be_replaced(const fs::path& directory, bool overwrite) {
  if (!is_taken(directory)) return false;
  if (overwrite) return true;
  throw InputError(
      fmt::format("{} exists and is not empty: choose another directory, or overwrite it (flag "
                  "--overwrite, argument `overwrite`)",
                  directory.string()));
}

void check_can_create(const fs::path& directory, bool overwrite) {
  if (!must_be_replaced(directory, overwrite)) return;
  check_is_run(directory);
  if (fs::exists(directory / RunLock::kFile))
    RunLock{directory};  // throws if another process has the lock
}

void move_old_run(const fs::path& directory) {
  const auto replaced = directory / RunFiles::replaced;
  check_is_run(directory);
  // A finished run is moved to `replaced`. If `replaced` contains files but no summary, an earlier
  // call was interrupted: these files belong to the same run and are kept. An unfinished run is
  // deleted. `replaced` does not change then, because it may contain a finished run.
  const bool finished = fs::exists(directory / RunFiles::summary);
  if (finished) {
    if (fs::exists(replaced / RunFiles::summary)) fs::remove_all(replaced);
    fs::create_directories(replaced);
  }
  for (const auto* name : kFilesOfRun) {
    if (!fs::exists(directory / name)) continue;
    if (finished) {
      fs::remove_all(replaced / name);
      fs::rename(directory / name, replaced / name);
    } else {
      fs::remove_all(directory / name);
    }
  }
}

bool is_file_of_run(const std::string& name) {
  return name == RunLock::kFile || name == RunFiles::replaced || is_temporary_file(name) ||
         std::ranges::any_of(kFilesOfRun, [&](const char* own) { return name == own; });
}

}  // namespace attend::train
