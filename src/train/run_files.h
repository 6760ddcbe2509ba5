#pragma once

#include "attend/api.h"

#include <filesystem>
#include <memory>
#include <string>

namespace attend::train {

/// RAII lock of a run directory against other processes. The operating system releases the lock
/// when the process ends, even if the process is killed.
class ATTEND_API RunLock {
 public:
  static constexpr const char* kFile = ".lock";  ///< name of the lock file, which is never deleted

  /// Throws InputError if another process, or another RunLock of this process, has the lock (the
  /// message contains the id of the process), or if the directory cannot be written.
  explicit RunLock(std::filesystem::path directory);
  /// Renames the run that `lock_new_run` has replaced back, unless the new run has a checkpoint.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Throws std::runtime_error if the directory no longer has its path, because it was removed,
  /// moved or replaced. `lost` names in the message what cannot be saved.
  void check_in_place(const std::string& lost) const;

 private:
  friend ATTEND_API std::unique_ptr<RunLock> lock_new_run(const std::filesystem::path& directory,
                                                          bool overwrite);
  void restore_replaced() const;

  std::filesystem::path directory_;
  int descriptor_;                  // of the lock file
  int directory_descriptor_ = -1;   // open, so that no new directory gets the same inode
  std::filesystem::path replaced_;  // the run that is renamed back; empty or missing if none is
};

/// Creates and locks the directory of a new run, without files of a run. A run with weights or
/// checkpoints that was in the directory is then in `RunDirectory::replaced(directory)`: the whole
/// directory was renamed, and the files that do not belong to the run were moved back. If the
/// replaced run has itself replaced a run that is still there, it has another name. Throws
/// InputError if `RunDirectory::create` does, or if the directory cannot be renamed.
ATTEND_API std::unique_ptr<RunLock> lock_new_run(const std::filesystem::path& directory,
                                                 bool overwrite);

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
