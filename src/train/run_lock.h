#pragma once

#include "attend/api.h"

#include <filesystem>

namespace attend::train {

/// Keeps other processes from writing to a run directory as long as it lives; the system lets go
/// of it when the process ends, however it ends.
class ATTEND_API RunLock {
 public:
  static constexpr const char* kFile = ".lock";  ///< in the directory; it stays there

  /// Throws InputError, naming the other process, if one holds the lock, and if the directory
  /// cannot be written.
  explicit RunLock(const std::filesystem::path& directory);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace attend::train
