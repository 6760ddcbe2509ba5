#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace attend::train {

/// A file that is open for writing at its end. Writes are unbuffered, so they survive a kill of the
/// process.
///
///     AppendFile file("metrics.jsonl", "a");
///     file.append("{}\n");
class AppendFile {
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

}  // namespace attend::train
