#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace attend {

/// Returns the entries of a PyTorch archive (.pt, .pt2) by name.
std::map<std::string, std::string> archive_entries(const std::filesystem::path& path);

/// Writes a PyTorch archive with correct checksums.
void write_archive(const std::filesystem::path& path,
                   const std::map<std::string, std::string>& entries);

}  // namespace attend
