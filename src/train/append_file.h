#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace attend::train {

/// A file that grows piece by piece. Each piece is handed to the system at once, so that a run that
/// is stopped keeps what it has written.
///
///     AppendFile file("metrics.jsonl", "a");
///     file.append("{}\n");
class AppendFile {
 public:
  /// `mode` as for std::fopen: "w" empties the file, "a" goes on at its end, "wx" insists that
  /// there is none. Throws std::runtime_error, naming the file and what hinders.
  AppendFile(std::filesystem::path path, const char* mode);

  /// Throws std::runtime_error, naming the file and what hinders.
  void append(std::string_view bytes);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace attend::train
