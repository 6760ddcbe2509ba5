#include "train/run_lock.h"

#include "attend/input_error.h"
#include "attend/train/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

namespace attend::train {
namespace {

std::string content_of(int descriptor) {
  std::array<char, 32> text{};
  const auto length = ::pread(descriptor, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(length > 0 ? length : 0)};
}

/// Locks a file if no other process has the lock for longer than the moment in which `is_locked`
/// has it.
bool lock(int descriptor) {
  constexpr std::chrono::milliseconds kMoment{20};
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return true;
  std::this_thread::sleep_for(kMoment);
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

/// Returns true if `path` still is the open file or directory: it may have been renamed since.
bool is_in_place(int descriptor, const std::filesystem::path& path) {
  struct stat own {};
  struct stat found {};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &found) == 0 &&
         own.st_dev == found.st_dev && own.st_ino == found.st_ino;
}

}  // namespace

RunLock::RunLock(std::filesystem::path directory)
    : directory_(std::move(directory)),
      descriptor_(::open((directory_ / kFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) {
    throw InputError(
        fmt::format("{} cannot be written: {}", directory_.string(), std::strerror(errno)));
  }
  if (!lock(descriptor_) || !is_in_place(descriptor_, directory_ / kFile)) {
    const auto holder = content_of(descriptor_);
    ::close(descriptor_);
    throw InputError(
        fmt::format("{}: process {} is writing to this run", directory_.string(), holder));
  }
  directory_descriptor_ = ::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory_descriptor_ < 0) {
    const int error = errno;
    ::close(descriptor_);
    throw InputError(
        fmt::format("{} cannot be opened: {}", directory_.string(), std::strerror(error)));
  }
  const auto process = std::to_string(::getpid());
  // The process id is used only in the message above, so a failed write is ignored.
  [[maybe_unused]] const bool noted = ::ftruncate(descriptor_, 0) == 0 &&
                                      ::pwrite(descriptor_, process.data(), process.size(), 0) > 0;
}

RunLock::~RunLock() {
  ::close(descriptor_);
  ::close(directory_descriptor_);
}

void RunLock::check_in_place(const std::string& lost) const {
  if (is_in_place(directory_descriptor_, directory_)) return;
  throw std::runtime_error(fmt::format(
      "{}: the run directory was removed, moved or replaced during training, so {} cannot be "
      "saved; if it was moved, resume the run from its new path",
      directory_.string(), lost));
}

bool RunDirectory::is_locked(const std::filesystem::path& path) {
  const int descriptor = ::open((path / RunLock::kFile).c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  // A shared lock, so that two processes that ask at the same time do not see each other.
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return locked;
}

}  // namespace attend::train
