#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace attend {

/// The whole of a UTF-8 text file. Throws InputError if it is missing, not a file, empty, or not
/// UTF-8 (naming the offset of the first wrong byte).
///
///     auto text = read_text("corpus.txt");
std::string read_text(const std::filesystem::path& path);

/// The whole of a file, as bytes. Throws InputError if it is missing or cannot be read.
std::string read_bytes(const std::filesystem::path& path);

/// Hands a file of any size to `use`, a part after the other, the last one maybe empty. Throws
/// InputError as `read_bytes` does.
void read_in_pieces(const std::filesystem::path& path,
                    const std::function<void(std::string_view)>& use);

/// The first `bytes` bytes of a file, or all of them if it has fewer. Throws as `read_bytes` does.
///
///     read_start("model.pt", 2) == "PK"
std::string read_start(const std::filesystem::path& path, std::size_t bytes);

/// Throws std::runtime_error: `path` cannot be written, for the reason that `error`, an errno, is.
[[noreturn]] void throw_unwritable(const std::filesystem::path& path, int error);

/// Waits until a file, or the names in a folder, are on the disk. Throws std::runtime_error, naming
/// it, if that fails.
void sync_to_disk(const std::filesystem::path& path);

/// Writes a file so that `path` holds either what it held before or all of the new content, even if
/// the power fails: `write` fills a file beside it, which is synced and then takes its name. Throws
/// std::runtime_error if that fails, and leaves no file behind.
///
///     replace_file("table", [&](const auto& temporary) { std::ofstream(temporary) << table; });
void replace_file(const std::filesystem::path& path,
                  const std::function<void(const std::filesystem::path&)>& write);

/// `replace_file` with content at hand.
void replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace attend
