#pragma once

#include <filesystem>
#include <string>

namespace attend::train {

/// Returns false if `directory` does not exist, is empty, or contains only files of an interrupted
/// `RunDirectory::create`. For any other directory, returns true if `overwrite` is true, and throws
/// InputError if `overwrite` is false.
bool must_be_replaced(const std::filesystem::path& directory, bool overwrite);

/// Throws InputError if `directory` contains files that `RunDirectory::create` would not overwrite,
/// or if another process is writing to the run in `directory`. Call this function before long
/// computations whose results the run needs.
void check_can_create(const std::filesystem::path& directory, bool overwrite);

/// Removes a run from its directory to make room for a new run, and restores it if the new run
/// fails before its first checkpoint.
///
/// The constructor moves the files of the run to the subfolder `replaced`. It deletes them instead
/// if the run has no results, or if `replaced` already contains a run: the run in `replaced` is the
/// one that was finished or had results first. The destructor moves the files back, unless the new
/// run has results or has deleted `replaced`.
class OverwriteGuard {
 public:
  /// Throws InputError if `directory` is not a run.
  explicit OverwriteGuard(std::filesystem::path directory);
  ~OverwriteGuard();
  OverwriteGuard(const OverwriteGuard&) = delete;
  OverwriteGuard& operator=(const OverwriteGuard&) = delete;

 private:
  std::filesystem::path directory_;
};

/// Moves the files in `replaced` back if a killed process has moved only some of the files. Throws
/// InputError if another process is writing to the run.
void undo_interrupted_overwrite(const std::filesystem::path& directory);

/// Deletes the folder `replaced`, if there is one. If the process is killed, the folder is either
/// complete or no longer has this name.
void delete_replaced(const std::filesystem::path& directory);

/// Returns a clause for messages about `directory` that names the folder `replaced`, or an empty
/// string if there is no such folder.
std::string replaced_clause(const std::filesystem::path& directory);

/// True if `name` is the name of a file or folder of a run, or of a temporary copy of such a file.
bool is_file_of_run(const std::string& name);

/// Removes temporary files that killed processes left.
void remove_temporary_files(const std::filesystem::path& directory);

}  // namespace attend::train
