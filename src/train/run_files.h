#pragma once

#include <filesystem>
#include <string>

namespace attend::train {

/// Returns false if `directory` does not exist, is empty, or contains only files of an interrupted
/// `RunDirectory::create`. For any other directory, returns true if `overwrite` is true, and throws
/// InputError if it is false.
bool must_be_replaced(const std::filesystem::path& directory, bool overwrite);

/// Throws InputError if `RunDirectory::create` would fail for this directory. Call it before long
/// computations whose results the run needs.
void check_can_create(const std::filesystem::path& directory, bool overwrite);

/// Moves the finished run in `directory` to its folder `replaced`, or removes an unfinished one.
/// Throws InputError if the directory is not a run.
void move_old_run(const std::filesystem::path& directory);

/// True if `name` is the name of a file or folder of a run, or of a temporary copy of one.
bool is_file_of_run(const std::string& name);

/// Removes temporary files that killed processes left.
void remove_temporary_files(const std::filesystem::path& directory);

}  // namespace attend::train
