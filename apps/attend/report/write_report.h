#pragma once

#include <filesystem>

namespace attend::app {

/// Writes the report of the run in `directory` to `file`. An existing file is replaced atomically.
/// Throws InputError if a file of the run is damaged, and std::runtime_error if `file` cannot be
/// written; the message names the file.
void write_report(const std::filesystem::path& directory, const std::filesystem::path& file);

}  // namespace attend::app
