#pragma once

#include "attend/api.h"

#include <filesystem>
#include <string>

namespace attend::train {

/// Returns the CRC-32C of a file as 8 hex digits, as in `RunRecord::files` and `RunSummary::files`.
/// Throws InputError if the file cannot be read.
///
///     const auto run = RunDirectory::open("runs/demo");
///     checksum_of_file(run.file(RunFiles::recipe)) == run.record().files.at(RunFiles::recipe)
ATTEND_API std::string checksum_of_file(const std::filesystem::path& path);

}  // namespace attend::train
