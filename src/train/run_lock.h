#pragma once

#include "attend/api.h"

#include <filesystem>
#include <string>

namespace attend::train {

/// RAII lock of a run directory against other processes. The operating system releases the lock
/// when the process ends, even if the process is killed.
class ATTEND_API RunLock {
 public:
  static constexpr const char* kFile = ".lock";  ///< name of the lock file, which is never deleted

  /// Throws InputError if another process, or another RunLock of this process, has the lock (the
  /// message contains the id of the process), or if the directory cannot be written.
  explicit RunLock(std::filesystem::path directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Throws std::runtime_error if the directory no longer has its path, because it was removed,
  /// moved or replaced. `lost` names in the message what cannot be saved.
  void check_in_place(const std::string& lost) const;

 private:
  std::filesystem::path directory_;
  int descriptor_;                 // of the lock file
  int directory_descriptor_ = -1;  // open, so that no new directory gets the same inode
};

}  // namespace attend::train
