#pragma once

#include <filesystem>

namespace attend::app {

/// Throws InputError if `out` is empty, is in a folder that does not exist, or is a file of the run
/// in `run`, or is anywhere in the folder `run` of a published model. Also throws InputError if
/// this path already exists, unless it is a regular file and `overwrite` is set. `flag` is the flag
/// of `out` in messages.
void check_output_file(const char* flag, const std::filesystem::path& out,
                       const std::filesystem::path& run, bool overwrite);

/// Throws InputError if the new folder `out` is in the folder `run` of a run or published model.
void check_output_folder(const std::filesystem::path& out, const std::filesystem::path& run);

}  // namespace attend::app
