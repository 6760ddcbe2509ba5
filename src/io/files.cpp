#include "io/files.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <utf8.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

namespace attend {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_too_large(const std::string& source, const std::string& found,
                                  SizeLimit limit) {
  const std::string_view option = limit.option;
  throw InputError(fmt::format("{}: found {} bytes, expected at most {}{}", source, found,
                               limit.bytes,
                               option.empty() ? "" : fmt::format("; pass a larger {}", option)));
}

/// Appends `piece` to `text`. Throws InputError if `text` becomes larger than `limit`.
void append(std::string& text, std::string_view piece, const std::string& source, SizeLimit limit) {
  if (piece.size() > limit.bytes - text.size()) {
    throw_too_large(source, fmt::format("more than {}", limit.bytes), limit);
  }
  text += piece;
}

/// Calls `use` with each chunk of a stream.
void read_in_pieces(std::istream& input, const std::string& source,
                    const std::function<void(std::string_view)>& use) {
  std::string piece(std::size_t{1} << 20, '\0');
  do {
    input.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    use(std::string_view(piece).substr(0, static_cast<std::size_t>(input.gcount())));
  } while (input);
  if (!input.eof()) throw InputError(fmt::format("{}: cannot be read", source));
}

/// Returns the content of a text file, without the byte order mark of UTF-8. Throws InputError if
/// the file is empty or is UTF-16.
std::string read_without_byte_order_mark(const fs::path& path, SizeLimit limit) {
  auto text = read_bytes(path, limit);
  if (text.empty()) throw InputError(fmt::format("{}: the file is empty", path.string()));
  text.erase(0, text.size() - without_byte_order_mark(text, path.string()).size());
  return text;
}

/// Returns the kind of a file that is neither a regular file nor a directory, with an article.
std::string kind_of(const fs::path& path) {
  std::error_code ignored;
  switch (fs::status(path, ignored).type()) {
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::character:
      return "a character device";
    case fs::file_type::block:
      return "a block device";
    case fs::file_type::socket:
      return "a socket";
    default:
      return "another kind of file";
  }
}

/// A file descriptor, or -1 if there is none.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (is_open()) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// Waits at most 5 seconds until a process writes to a pipe. Returns false if no process has opened
/// the pipe for writing until then. `pipe`: descriptor that was opened with O_NONBLOCK.
bool has_writer(int pipe) {
  constexpr int kMilliseconds = 5000;
  pollfd events{pipe, POLLIN, 0};
  if (::poll(&events, 1, kMilliseconds) != 0) return true;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return true;
  const Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);
  // `tee` copies data without removing it. It returns 0 if there are neither data nor writers, and
  // fails if a writer has not written yet.
  return ::tee(pipe, write_end.get(), 1, SPLICE_F_NONBLOCK) != 0;
}

/// Keeps the errno of the first failure, since code that writes to the stream may change errno and
/// throw another error.
class FileBuffer : public std::filebuf {
 public:
  int error() const { return error_; }

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    const auto written = std::filebuf::xsputn(bytes, count);
    keep_error(written < count);
    return written;
  }
  int overflow(int byte) override {
    const auto result = std::filebuf::overflow(byte);
    keep_error(result == traits_type::eof());
    return result;
  }

 private:
  void keep_error(bool failed) {
    if (failed && error_ == 0) error_ = errno;
  }

  int error_ = 0;
};

/// Flushes a file or directory to disk. `name`: its path in messages.
void sync(const fs::path& path, const fs::path& name) {
  const Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.is_open() || ::fsync(opened.get()) != 0) throw_unwritable(name, errno);
}

/// An empty temporary file in the folder of `target`, which it replaces at the end. If the file
/// system supports it (O_TMPFILE), the file has no name until then, so that it disappears if the
/// process is killed. The path is then that of the open file in /proc.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& target) : target_(target) {
    const auto folder = fs::absolute(target).parent_path();
    const int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      unnamed_.emplace(descriptor);
      path_ = fmt::format("/proc/self/fd/{}", descriptor);
      if (::access(path_.c_str(), W_OK) == 0) return;
      unnamed_.reset();
    }
    make_named([](const char* name) {
      const int file = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
      return file < 0 ? file : ::close(file);
    });
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    if (!unnamed_ && !path_.empty()) fs::remove(path_, ignored);
  }

  const fs::path& path() const { return path_; }

  void replace_target() {
    if (unnamed_) {
      const auto opened = path_;
      make_named([&](const char* name) {
        return ::linkat(AT_FDCWD, opened.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW);
      });
      unnamed_.reset();
    }
    fs::rename(path_, target_);
    path_.clear();
    sync_to_disk(fs::absolute(target_).parent_path());
  }

 private:
  /// Calls `make`, which returns 0 or sets errno, with a name in the folder of the target. If a
  /// file or symbolic link with this name exists, another name is used. Several threads and
  /// processes can therefore write the same target at the same time.
  template <typename Make>
  void make_named(const Make& make) {
    for (int number = 0;; ++number) {
      auto name = target_;
      name += number == 0 ? fmt::format(".{}.tmp", ::getpid())
                          : fmt::format(".{}-{}.tmp", ::getpid(), number);
      if (make(name.c_str()) == 0) {
        path_ = name;
        return;
      }
      if (errno != EEXIST) throw_unwritable(target_, errno);
    }
  }

  fs::path target_;
  fs::path path_;                      // empty after the end
  std::optional<Descriptor> unnamed_;  // open file without a name
};

}  // namespace

std::ifstream open_to_read(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) throw InputError(fmt::format("{}: no such file", path.string()));
  if (fs::is_directory(path, ignored)) {
    throw InputError(fmt::format("{}: expected a file, found a directory", path.string()));
  }
  const bool is_pipe = fs::is_fifo(path, ignored);
  // Opening a pipe blocks until a process opens it for writing, which `writer` is, too.
  const Descriptor reader(is_pipe ? ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1);
  if (is_pipe && reader.is_open() && !has_writer(reader.get())) {
    throw InputError(
        fmt::format("{}: found a pipe that no process writes to: start the process that writes to "
                    "it first, or pass a file",
                    path.string()));
  }
  const Descriptor writer(is_pipe ? ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path.string()));
  return file;
}

void read_in_pieces(const fs::path& path, const std::function<void(std::string_view)>& use) {
  auto file = open_to_read(path);
  read_in_pieces(file, path.string(), use);
}

std::string read_bytes(const fs::path& path, SizeLimit limit) {
  std::string content;
  std::error_code unknown_size;
  const auto size = fs::file_size(path, unknown_size);
  if (!unknown_size) {
    if (size > limit.bytes) throw_too_large(path.string(), fmt::format("{}", size), limit);
    content.reserve(size);
  }
  read_in_pieces(path,
                 [&](std::string_view piece) { append(content, piece, path.string(), limit); });
  return content;
}

std::string read_all(std::istream& input, const std::string& source, SizeLimit limit) {
  std::string content;
  read_in_pieces(input, source,
                 [&](std::string_view piece) { append(content, piece, source, limit); });
  return content;
}

bool read_line(std::istream& input, std::string& line, const std::string& source, SizeLimit limit) {
  line.clear();
  for (char c = 0; input.get(c);) {
    if (c == '\n') return true;
    append(line, {&c, 1}, source, limit);
  }
  if (input.bad()) throw InputError(fmt::format("{}: cannot be read", source));
  return !line.empty();
}

std::string read_start(const fs::path& path, std::size_t bytes) {
  auto file = open_to_read(path);
  std::string start(bytes, '\0');
  file.read(start.data(), static_cast<std::streamsize>(bytes));
  if (file.bad()) throw InputError(fmt::format("{}: cannot be read", path.string()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  return start;
}

fs::path file_in(const fs::path& folder, const fs::path& name) {
  const auto file = folder / name;
  std::error_code error;
  const auto root = fs::weakly_canonical(fs::absolute(folder), error);
  const auto target = fs::weakly_canonical(fs::absolute(file), error).parent_path();
  const auto relative = target.lexically_relative(root);
  const bool is_inside = !relative.empty() && *relative.begin() != "..";
  if (is_inside || target == root.parent_path().parent_path() / "blobs") return file;
  throw InputError(fmt::format("{} is a link to a file in {}, expected one in {}", file.string(),
                               target.string(), root.string()));
}

void check_is_regular(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored) || fs::is_directory(path, ignored)) {
    open_to_read(path);  // throws
  }
  if (!fs::is_regular_file(path, ignored)) {
    throw InputError(
        fmt::format("{}: expected a regular file, found {}: save the text in a file first",
                    path.string(), kind_of(path)));
  }
}

std::string read_text(const fs::path& path, SizeLimit limit, TextEncoding encoding) {
  check_is_regular(path);
  return encoding == TextEncoding::bytes ? read_without_byte_order_mark(path, limit)
                                         : read_text_or_pipe(path, limit);
}

std::string read_text_or_pipe(const fs::path& path, SizeLimit limit) {
  auto text = read_without_byte_order_mark(path, limit);
  check_is_text(text, path.string());
  return text;
}

void check_is_text(std::string_view text, const std::string& source, const TextPosition& begin) {
  const auto* end = text.data() + text.size();
  const auto* invalid = utf8::find_invalid(text.data(), end);
  const auto* zero = std::find(text.data(), invalid, '\0');
  const auto position_of = [&](const char* at) {
    return position_in(text, static_cast<std::size_t>(at - text.data()), begin);
  };
  if (zero != invalid) {
    const auto position = position_of(zero);
    throw InputError(fmt::format("{}: expected text, found a NUL byte (0x00) at offset {} ({})",
                                 source, position.offset, line_and_column(position)));
  }
  if (invalid != end) {
    const auto position = position_of(invalid);
    throw InputError(fmt::format("{}: expected UTF-8 text, found byte 0x{:02X} at offset {} ({})",
                                 source, static_cast<unsigned char>(*invalid), position.offset,
                                 line_and_column(position)));
  }
}

void throw_unwritable(const fs::path& path, int error) {
  throw std::runtime_error(
      fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

AppendFile::AppendFile(fs::path path, const char* mode)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), mode)) {
  if (!file_) throw_unwritable(path_, errno);
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
}

void AppendFile::append(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) < bytes.size())
    throw_unwritable(path_, errno);
}

void sync_to_disk(const fs::path& path) {
  sync(path, path);
}

void replace_files(const std::vector<NewFile>& files) {
  for (const auto& file : files) {
    // Renaming the temporary file to the name of a device would replace the device by a file.
    if (file.path.empty() || (fs::exists(file.path) && !fs::is_regular_file(file.path))) {
      throw InputError(fmt::format("'{}' is not a regular file", file.path.string()));
    }
  }
  std::deque<TemporaryFile> temporaries;
  for (const auto& file : files) {
    file.write(temporaries.emplace_back(file.path).path());
    sync(temporaries.back().path(), file.path);
  }
  if (files.size() > 1) fs::remove(files.back().path);
  for (auto& temporary : temporaries) temporary.replace_target();
}

void replace_file(const fs::path& path, const std::function<void(const fs::path&)>& write) {
  replace_files({{path, write}});
}

void write_stream(const fs::path& path, const fs::path& name,
                  const std::function<void(std::ostream&)>& write) {
  FileBuffer buffer;
  if (buffer.open(path, std::ios::out | std::ios::binary) == nullptr) throw_unwritable(name, errno);
  std::ostream file(&buffer);
  try {
    write(file);
  } catch (...) {
    if (buffer.error() != 0) throw_unwritable(name, buffer.error());
    throw;
  }
  const bool is_closed = buffer.close() != nullptr;
  if (!is_closed || !file) throw_unwritable(name, buffer.error());
}

std::function<std::size_t(const void*, std::size_t)> archive_writer(std::ostream& file) {
  return [&file](const void* data, std::size_t size) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    return size;
  };
}

NewFile new_file(const fs::path& path, const std::function<void(std::ostream&)>& write) {
  return {path, [=](const fs::path& temporary) { write_stream(temporary, path, write); }};
}

void replace_file(const fs::path& path, std::string_view content) {
  replace_files({new_file(path, [&](std::ostream& file) {
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
  })});
}

}  // namespace attend
