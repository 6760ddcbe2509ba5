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
#include <vector>

namespace attend {

/// Maximum size of an input that is read into memory, since an endless input would fill the memory.
struct SizeLimit {
  std::size_t bytes = SIZE_MAX;
  const char* option = "";  ///< option that sets the limit, for messages; may be empty
};

/// Limit of the size of a text, which the option `max_text_bytes` sets.
inline SizeLimit text_limit(int64_t max_bytes) {
  return {static_cast<std::size_t>(max_bytes), "`max_text_bytes`"};
}

/// True if `path` is the name of a file or folder in the same folder: not empty, without slashes,
/// and neither "." nor "..".
inline bool is_file_name(const std::filesystem::path& path) {
  return !path.empty() && path.filename() == path && path != "." && path != "..";
}

/// Returns the path of a file in a folder of foreign files, which may be missing. Throws InputError
/// if a symbolic link leads out of the folder, unless it is a link of Hugging Face's cache.
ATTEND_API std::filesystem::path file_in(const std::filesystem::path& folder,
                                         const std::filesystem::path& name);

/// Throws InputError unless `path` is a regular file, so that a device without an end or a pipe
/// without a writer does not block the program.
ATTEND_API void check_is_regular(const std::filesystem::path& path);

/// Returns the content of a text file, without the byte order mark of UTF-8. Throws InputError if
/// the file does not exist, is not a regular file, is empty, or is UTF-16. Unless `encoding` is
/// `TextEncoding::bytes`, also throws InputError if the file is not valid UTF-8 or contains NUL;
/// the message names offset, line and column of the byte. Also throws InputError if the file is
/// larger than `limit`; the message names sizes and option.
///
///     auto text = read_text("corpus.txt");
ATTEND_API std::string read_text(const std::filesystem::path& path, SizeLimit limit = {},
                                 TextEncoding encoding = TextEncoding::utf8);

/// Does the same as `read_text` for UTF-8, but also reads a pipe or a device, until its end or
/// `limit`.
ATTEND_API std::string read_text_or_pipe(const std::filesystem::path& path, SizeLimit limit);

/// Returns the content of a file. Throws InputError if the file does not exist, cannot be read, or
/// is larger than `limit`.
ATTEND_API std::string read_bytes(const std::filesystem::path& path, SizeLimit limit = {});

/// Returns the rest of a stream. Throws InputError if it is larger than `limit`. `source` is the
/// beginning of the message, e.g. a file name.
ATTEND_API std::string read_all(std::istream& input, const std::string& source, SizeLimit limit);

/// Reads the next line of a stream, without the line break. Returns false at the end of the stream.
/// Throws InputError if the line is larger than `limit`. `source` is the beginning of the message.
ATTEND_API bool read_line(std::istream& input, std::string& line, const std::string& source,
                          SizeLimit limit);

/// Opens a file for reading. Throws InputError if the file does not exist, is a directory, cannot
/// be opened, or is a pipe that no process opens for writing within 5 seconds.
ATTEND_API std::ifstream open_to_read(const std::filesystem::path& path);

/// Reads a file, which may have any size, in chunks. Calls `use` with each chunk, in the order of
/// the file. The last chunk may be empty. Throws InputError if the file does not exist or cannot be
/// read.
ATTEND_API void read_in_pieces(const std::filesystem::path& path,
                               const std::function<void(std::string_view)>& use);

/// Returns the first `bytes` bytes of a file, or the whole file if it is shorter. Throws InputError
/// if the file does not exist or cannot be read.
///
///     read_start("model.pt", 2) == "PK"
ATTEND_API std::string read_start(const std::filesystem::path& path, std::size_t bytes);

/// Throws std::runtime_error with the message "PATH: cannot be written: REASON". `error` is the
/// errno of the failure.
[[noreturn]] ATTEND_API void throw_unwritable(const std::filesystem::path& path, int error);

/// Flushes a file, or the entries of a directory, to disk (fsync). Throws std::runtime_error on
/// failure. The message names the path.
ATTEND_API void sync_to_disk(const std::filesystem::path& path);

/// Writes a file atomically. First, `write` writes a temporary file in the directory of `path`. The
/// temporary file is then flushed to disk and renamed to `path`. Finally, the directory is flushed
/// to disk. If the renaming or an earlier step fails, `path` is unchanged and the temporary file is
/// removed. If the file system supports files without a name, nothing is left behind either if the
/// process is killed while `write` runs, and `write` gets a path in /proc. Throws
/// std::runtime_error on failure. Exceptions thrown by `write` are passed on. Throws InputError if
/// `path` is empty, or exists and is not a regular file.
///
///     replace_file("table", [&](const auto& temporary) { std::ofstream(temporary) << table; });
ATTEND_API void replace_file(const std::filesystem::path& path,
                             const std::function<void(const std::filesystem::path&)>& write);

/// A file to write: `write` writes the content to the path that it is called with.
struct NewFile {
  std::filesystem::path path;
  std::function<void(const std::filesystem::path&)> write;
};

/// Writes a file: `write` writes its content to a stream. Throws std::runtime_error if a write
/// fails, also if `write` then throws another error. The message contains `name`.
ATTEND_API void write_stream(const std::filesystem::path& path, const std::filesystem::path& name,
                             const std::function<void(std::ostream&)>& write);

/// Returns the function through which LibTorch writes an archive to `file`, inside `write_stream`.
/// It never reports an error: LibTorch would throw in a destructor and end the process.
/// `write_stream` then throws, since the stream has failed.
ATTEND_API std::function<std::size_t(const void*, std::size_t)> archive_writer(std::ostream& file);

/// Returns a file that is written with `write_stream`.
ATTEND_API NewFile new_file(const std::filesystem::path& path,
                            const std::function<void(std::ostream&)>& write);

/// Writes files that belong together, the last of which refers to the others. Writes all temporary
/// files first, then renames them in order. If the last file exists, it is removed before, so that
/// it never refers to files of another call. Throws the same exceptions as the function above.
ATTEND_API void replace_files(const std::vector<NewFile>& files);

/// Writes `content` to `path` atomically. Throws the same exceptions as the function above.
ATTEND_API void replace_file(const std::filesystem::path& path, std::string_view content);

}  // namespace attend
