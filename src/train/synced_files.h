#pragma once

#include <filesystem>

namespace attend::train {

/// Waits until a file, or the names in a folder, are on the disk. Throws std::runtime_error, naming
/// it, if that fails.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace attend::train
