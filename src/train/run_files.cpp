// The files of a run, the lock of its directory, and the checks of a directory before a run is
// created in it.
#include "train/run_files.h"

#include "attend/input_error.h"
#include "attend/io/subword_tokenizer.h"
#include "attend/io/tokenizer.h"
#include "attend/tokenizers/published_tokenizer.h"
#include "attend/train/checkpoint_store.h"
#include "attend/train/embedding_files.h"
#include "attend/train/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

namespace fs = std::filesystem;

std::string content_of(int descriptor) {
  std::array<char, 32> text{};
  const auto length = ::pread(descriptor, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(length > 0 ? length : 0)};
}

/// Locks a file if no other process has the lock for longer than the moment in which `is_locked`
/// has it.
bool try_lock(int descriptor) {
  constexpr std::chrono::milliseconds kMoment{20};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  std::this_thread::sleep_for(kMoment);
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

/// Returns true if `path` still is the open file or directory: it may have been renamed since.
bool is_in_place(int descriptor, const fs::path& path) {
  struct stat own {};
  struct stat found {};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &found) == 0 &&
         own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

/// The files of a run, without the lock file. The recipe is the last one: while it exists, the
/// directory is a run, which can be overwritten.
constexpr std::array kFilesOfRun{
    RunFiles::checkpoints, RunFiles::tensorboard, RunFiles::metrics,      RunFiles::samples,
    RunFiles::embeddings,  EmbeddingFiles::table, EmbeddingFiles::tokens, EmbeddingFiles::config,
    RunFiles::model,       RunFiles::adapter,     RunFiles::report_text,  RunFiles::report_page,
    kTokenizerFile,        kSubwordFile,          kPublishedFile,         RunFiles::data,
    RunFiles::summary,     RunFiles::recipe};

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

bool has_best_weights(const fs::path& directory) {
  return fs::exists(directory / RunFiles::model) || fs::exists(directory / RunFiles::adapter);
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

/// Renames the directory of a run to `replaced`, and creates and locks a new one with the files
/// that do not belong to the run.
std::unique_ptr<RunLock> replace(const fs::path& directory, const fs::path& replaced) {
  if (fs::exists(replaced)) {
    throw InputError(
        fmt::format("{} contains files, but no run that was overwritten: move them to another "
                    "folder",
                    replaced.string()));
  }
  // The target is beside the directory itself if `directory` is a symbolic link.
  const auto whole = fs::canonical(directory);
  std::error_code error;
  fs::rename(whole, replaced, error);
  if (error) {
    throw InputError(fmt::format(
        "{} cannot be overwritten: it cannot be renamed to {}: {}; choose another directory",
        directory.string(), replaced.string(), error.message()));
  }
  bool is_own = false;  // false: another process has created a run in the meantime
  try {
    is_own = fs::create_directory(whole);
    auto lock = std::make_unique<RunLock>(directory);
    move_files_of_user(replaced, directory);
    return lock;
  } catch (...) {
    if (is_own) restore(replaced, whole);
    throw;
  }
}

}  // namespace

RunLock::RunLock(fs::path directory)
    : directory_(std::move(directory)),
      descriptor_(::open((directory_ / kFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) {
    throw InputError(
        fmt::format("{} cannot be written: {}", directory_.string(), std::strerror(errno)));
  }
  if (!try_lock(descriptor_) || !is_in_place(descriptor_, directory_ / kFile)) {
    const auto holder = content_of(descriptor_);
    ::close(descriptor_);
    throw InputError(
        fmt::format("{}: process {} is writing to this run", directory_.string(), holder));
  }
  directory_descriptor_ = ::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory_descriptor_ < 0) {
    const int error = errno;
    ::close(descriptor_);
    throw InputError(
        fmt::format("{} cannot be opened: {}", directory_.string(), std::strerror(error)));
  }
  const auto process = std::to_string(::getpid());
  // The process id is used only in the message above, so a failed write is ignored.
  [[maybe_unused]] const bool noted = ::ftruncate(descriptor_, 0) == 0 &&
                                      ::pwrite(descriptor_, process.data(), process.size(), 0) > 0;
}

RunLock::~RunLock() {
  if (!replaced_.empty()) restore_replaced();
  ::close(descriptor_);
  ::close(directory_descriptor_);
}

void RunLock::restore_replaced() const {
  try {
    check_in_place("");  // throws if the directory is no longer that of the new run
    if (has_checkpoint(directory_))
      fs::remove_all(unfinished_path(directory_));
    else if (RunDirectory::exists(replaced_))
      restore(replaced_, fs::canonical(directory_));
  } catch (...) {  // the run remains in the folder, which the messages name
  }
}

void RunLock::check_in_place(const std::string& lost) const {
  if (is_in_place(directory_descriptor_, directory_)) return;
  throw std::runtime_error(fmt::format(
      "{}: the run directory was removed, moved or replaced during training, so {} cannot be "
      "saved; if it was moved, resume the run from its new path",
      directory_.string(), lost));
}

std::unique_ptr<RunLock> lock_new_run(const fs::path& directory, bool overwrite) {
  RunDirectory::check_can_create(directory, overwrite);
  const auto path = fs::absolute(directory);
  std::error_code error;
  fs::create_directories(path, error);
  if (error || !fs::is_directory(path)) {
    throw InputError(fmt::format("{} cannot be created: {}", path.string(),
                                 error ? error.message() : "a file with this name exists"));
  }
  auto lock = std::make_unique<RunLock>(path);
  const auto replaced = RunDirectory::replaced(path);
  const auto unfinished = unfinished_path(path);
  // The directory of the replaced run may have been removed or moved since.
  if (!has_replaced(path) && RunDirectory::exists(unfinished)) fs::rename(unfinished, replaced);
  // Checks the directory again, since another process may have created a run between the first
  // check and the lock.
  if (is_free(path) && !has_replaced(path)) return lock;
  check_can_overwrite(path, overwrite);
  // A finished run deletes the run that it replaces, but may have been killed before.
  if (fs::exists(path / RunFiles::summary)) {
    delete_replaced(path);
    if (has_replaced(path)) {
      throw InputError(fmt::format("{}: a process trains this run, which {} has replaced: move it",
                                   replaced.string(), path.string()));
    }
  }
  // A run without a checkpoint, which has replaced an unfinished run, is less than that one.
  const bool has_weights =
      has_checkpoint(path) || (has_best_weights(path) && !fs::exists(unfinished));
  if (has_weights) {
    fs::remove_all(unfinished);
    const auto& moved = has_replaced(path) ? unfinished : replaced;
    lock = replace(path, moved);
    lock->replaced_ = moved;
  } else {
    delete_run(path);
    lock->replaced_ = RunDirectory::exists(unfinished) ? unfinished : replaced;
    // A process may have been killed before it moved these files.
    if (RunDirectory::exists(lock->replaced_)) move_files_of_user(lock->replaced_, path);
  }
  return lock;
}

bool RunDirectory::is_locked(const fs::path& path) {
  const int descriptor = ::open((path / RunLock::kFile).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  // A shared lock, so that two processes that ask at the same time do not see each other.
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return locked;
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
