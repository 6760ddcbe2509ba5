#pragma once

#include <filesystem>

namespace attend::train {

/// True if there is a run to overwrite in `directory`. Throws InputError if there is one and
/// `overwrite` is unset.
bool check_is_free(const std::filesystem::path& directory, bool overwrite);

/// Moves the finished run in `directory` to its folder `replaced`, or removes an unfinished one.
/// Throws InputError if the directory is not a run.
void move_old_run(const std::filesystem::path& directory);

/// Removes temporary files that killed processes left.
void remove_fragments(const std::filesystem::path& directory);

}  // namespace attend::train
