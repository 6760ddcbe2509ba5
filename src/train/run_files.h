#pragma once

#include "attend/api.h"

#include <filesystem>
#include <memory>
#include <string>

namespace attend::train {

class RunLock;

/// The locked directory of a new run, without files of a run. A run with weights or checkpoints
/// that was in the directory is now in `RunDirectory::replaced(directory)`: the whole directory was
/// renamed, and the files that do not belong to the run were moved back. If the replaced run has
/// itself replaced a run that is still there, it has another name.
///
/// The destructor renames the replaced run back, unless the new run has a checkpoint.
class ATTEND_API NewRunDirectory {
 public:
  /// Throws InputError if `RunDirectory::create` does, or if the directory cannot be renamed.
  NewRunDirectory(const std::filesystem::path& directory, bool overwrite);
  ~NewRunDirectory();
  NewRunDirectory(const NewRunDirectory&) = delete;
  NewRunDirectory& operator=(const NewRunDirectory&) = delete;

  const std::shared_ptr<RunLock>& lock() const { return lock_; }

 private:
  /// Renames the directory to `replaced_`, and creates and locks a new one.
  void replace();

  std::filesystem::path directory_;  // absolute
  std::filesystem::path
      replaced_;  // the run that is renamed back; empty or missing if there is none
  std::shared_ptr<RunLock> lock_;
};

/// Deletes the run that the run in `directory` replaces, if there is one. If the process is killed,
/// the replaced run is either complete or no longer has its name.
ATTEND_API void delete_replaced(const std::filesystem::path& directory);

/// Returns a clause for messages about a directory that is not a run itself, but contains runs,
/// such as "a sweep with the runs lr=0.1, lr=0.2". Returns an empty string if it contains none.
ATTEND_API std::string runs_clause(const std::filesystem::path& directory);

/// True if `name` is the name of a file or folder of a run, or of a temporary copy of such a file.
ATTEND_API bool is_file_of_run(const std::string& name);

/// Removes temporary files that killed processes left.
ATTEND_API void remove_temporary_files(const std::filesystem::path& directory);

}  // namespace attend::train
