#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace attend {

/// The entries of an archive as PyTorch writes them, by their names.
std::map<std::string, std::string> archive_entries(const std::filesystem::path& path);

/// Writes such an archive, its checksums right.
void write_archive(const std::filesystem::path& path,
                   const std::map<std::string, std::string>& entries);

}  // namespace attend
