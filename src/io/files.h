#pragma once

#include "attend/api.h"
#include "attend/io/files.h"
#include "attend/io/utf8.h"

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// True if `path` is the name of a file or folder in the same folder: not empty, without slashes,
/// and neither "." nor "..".
inline bool is_file_name(const std::filesystem::path& path) {
  return !path.empty() && path.filename() == path && path != "." && path != "..";
}

/// Throws InputError unless `path` is a regular file, so that a device without an end or a pipe
/// without a writer does not block the program.
ATTEND_API void check_is_regular(const std::filesystem::path& path);

/// Throws InputError if a text is not valid UTF-8 or contains NUL. The message begins with `source`
/// and names offset, line and column of the byte. `begin`: position of `text` in the text of
/// `source`, of which it may be a part.
ATTEND_API void check_is_text(std::string_view text, const std::string& source,
                              const TextPosition& begin = {});

/// Does the same as `read_text` for UTF-8, but also reads a pipe or a device, until its end or
/// `limit`.
ATTEND_API std::string read_text_or_pipe(const std::filesystem::path& path, SizeLimit limit);

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

/// A file that is open for writing at its end. Writes are unbuffered, so they survive a kill of the
/// process.
///
///     AppendFile file("metrics.jsonl", "a");
///     file.append("{}\n");
class ATTEND_API AppendFile {
 public:
  /// `mode` is a mode of std::fopen: "w" deletes the content of an existing file, "a" keeps the
  /// content, and "wx" requires that the file does not exist. Throws std::runtime_error with path
  /// and reason if the file cannot be opened.
  AppendFile(std::filesystem::path path, const char* mode);

  /// Appends bytes. Throws std::runtime_error with path and reason if writing fails.
  void append(std::string_view bytes);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

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
/// it never refers to files of another call. Throws the same exceptions as `replace_file`.
ATTEND_API void replace_files(const std::vector<NewFile>& files);

}  // namespace attend
