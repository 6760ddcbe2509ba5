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

/// Moves the run in `directory` to the subfolder `replaced` if the run is finished; otherwise
/// deletes the run. Throws InputError if the directory is not a run.
void move_old_run(const std::filesystem::path& directory);

/// True if `name` is the name of a file or folder of a run, or of a temporary copy of such a file.
bool is_file_of_run(const std::string& name);

/// Removes temporary files that killed processes left.
void remove_temporary_files(const std::filesystem::path& directory);

}  // namespace attend::train
