#pragma once

#include "attend/api.h"

#include <filesystem>

namespace attend::train {

/// RAII lock of a run directory against other processes. The operating system releases the lock
/// when the process ends, even if the process is killed.
class ATTEND_API RunLock {
 public:
  static constexpr const char* kFile = ".lock";  ///< name of the lock file, which is never deleted

  /// Throws InputError if another process, or another RunLock of this process, has the lock (the
  /// message contains the id of the process), or if the directory cannot be written.
  explicit RunLock(const std::filesystem::path& directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace attend::train
