#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace attend {

/// Maximum size of an input that is read into memory, since an endless input would fill the memory.
struct SizeLimit {
  std::size_t bytes = SIZE_MAX;  ///< maximum number of bytes
  const char* option = "";       ///< option that sets the limit, for messages; may be empty
};

/// Limit of the size of a text, which the option `max_text_bytes` sets.
inline SizeLimit text_limit(int64_t max_bytes) {
  return {static_cast<std::size_t>(max_bytes), "`max_text_bytes`"};
}

/// Returns the content of a text file, without the byte order mark of UTF-8. Throws InputError if
/// the file does not exist, is not a regular file, is empty, or is UTF-16. Unless `encoding` is
/// `TextEncoding::bytes`, also throws InputError if the file is not valid UTF-8 or contains NUL;
/// the message names offset, line and column of the byte. Also throws InputError if the file is
/// larger than `limit`; the message names sizes and option.
///
///     auto text = read_text("corpus.txt");
ATTEND_API std::string read_text(const std::filesystem::path& path, SizeLimit limit = {},
                                 TextEncoding encoding = TextEncoding::utf8);

/// Returns the content of a file. Throws InputError if the file does not exist, cannot be read, or
/// is larger than `limit`.
ATTEND_API std::string read_bytes(const std::filesystem::path& path, SizeLimit limit = {});

/// Returns the rest of a stream. Throws InputError if it is larger than `limit`. `source` is the
/// beginning of the message, e.g. a file name.
ATTEND_API std::string read_all(std::istream& input, const std::string& source, SizeLimit limit);

/// Reads the next line of a stream, without the line break. Returns false at the end of the stream.
/// Throws InputError if the line is larger than `limit`. `source` is the beginning of the message.
///
///     for (std::string line; read_line(std::cin, line, "standard input", {.bytes = 1 << 20});)
///       std::cout << line.size() << "\n";
ATTEND_API bool read_line(std::istream& input, std::string& line, const std::string& source,
                          SizeLimit limit);

/// Returns the path of a file in a folder of foreign files, which may be missing. Throws InputError
/// if a symbolic link leads out of the folder, unless it is a link of Hugging Face's cache.
ATTEND_API std::filesystem::path file_in(const std::filesystem::path& folder,
                                         const std::filesystem::path& name);

/// Opens a file for reading. Throws InputError if the file does not exist, is a directory, cannot
/// be opened, or is a pipe that no process opens for writing within 5 seconds.
ATTEND_API std::ifstream open_to_read(const std::filesystem::path& path);

/// Writes a file atomically. First, `write` writes a temporary file in the directory of `path`. The
/// temporary file is then flushed to disk and renamed to `path`. Finally, the directory is flushed
/// to disk. If the renaming or an earlier step fails, `path` is unchanged and the temporary file is
/// removed. If the file system supports files without a name, nothing is left behind either if the
/// process is killed while `write` runs, and `write` gets a path in /proc. Throws
/// std::runtime_error on failure. Exceptions thrown by `write` are passed on. Throws InputError if
/// `path` is empty, or exists and is not a regular file.
///
///     replace_file(path, [&](const auto& temporary) { std::ofstream(temporary) << text; });
ATTEND_API void replace_file(const std::filesystem::path& path,
                             const std::function<void(const std::filesystem::path&)>& write);

/// Writes `content` to `path` atomically. Throws the same exceptions as the function above.
///
///     replace_file("classes.txt", "cat\ndog\n");
ATTEND_API void replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace attend
