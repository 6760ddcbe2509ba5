#pragma once

#include "attend/api.h"

#include <filesystem>
#include <string>

namespace attend::train {

/// Throws InputError if `directory` contains files that `RunDirectory::create` would not overwrite,
/// or if another process is writing to the run in `directory`. Call this function before long
/// computations whose results the run needs.
ATTEND_API void check_can_create(const std::filesystem::path& directory, bool overwrite);

/// Removes a run from its directory to make room for a new run, and restores it if the new run
/// fails before its first checkpoint. Does nothing if there is no run to remove.
///
/// The constructor moves the files of the run to the subfolder `replaced`, or to another subfolder
/// if `replaced` already contains a run. It deletes the files of a run
/// without results. The destructor moves the files back, unless the new run has a checkpoint.
class ATTEND_API OverwriteGuard {
 public:
  /// Throws InputError if `directory` contains files that `RunDirectory::create` would not
  /// overwrite, or if its folder `replaced` contains files that do not belong to a run.
  OverwriteGuard(std::filesystem::path directory, bool overwrite);
  ~OverwriteGuard();
  OverwriteGuard(const OverwriteGuard&) = delete;
  OverwriteGuard& operator=(const OverwriteGuard&) = delete;

 private:
  std::filesystem::path directory_;
  std::filesystem::path folder_;  // contains the files; empty if they were deleted
};

/// Moves the files in `replaced` back if a killed process has moved only some of the files. Throws
/// InputError if another process is writing to the run.
ATTEND_API void undo_interrupted_overwrite(const std::filesystem::path& directory);

/// Deletes the folder `replaced`, if there is one. If the process is killed, the folder is either
/// complete or no longer has this name.
ATTEND_API void delete_replaced(const std::filesystem::path& directory);

/// Returns a clause for messages about `directory` that names the run in the folder `replaced`, or
/// an empty string if there is none.
ATTEND_API std::string replaced_clause(const std::filesystem::path& directory);

/// Returns a clause for messages about a directory that is not a run itself, but contains runs,
/// such as "a sweep with the runs lr=0.1, lr=0.2". Returns an empty string if it contains none.
ATTEND_API std::string runs_clause(const std::filesystem::path& directory);

/// True if `name` is the name of a file or folder of a run, or of a temporary copy of such a file.
ATTEND_API bool is_file_of_run(const std::string& name);

/// Removes temporary files that killed processes left.
ATTEND_API void remove_temporary_files(const std::filesystem::path& directory);

}  // namespace attend::train
