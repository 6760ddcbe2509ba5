#pragma once

#include "attend/api.h"

#include <filesystem>

namespace attend {

/// A folder beside `target` that becomes `target` at the end, so that `target` never contains only
/// some of its files. The destructor removes it if it did not become `target`.
///
///     NewFolder folder("model");
///     replace_file(folder.path() / "config.json", config);
///     folder.finish();
class ATTEND_API NewFolder {
 public:
  /// Throws std::filesystem::filesystem_error if the folder cannot be created.
  explicit NewFolder(const std::filesystem::path& target);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  NewFolder(NewFolder&&) = delete;
  NewFolder& operator=(NewFolder&&) = delete;
  ~NewFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Renames the folder to `target`, which is missing or an empty folder.
  void finish();

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
};

}  // namespace attend
