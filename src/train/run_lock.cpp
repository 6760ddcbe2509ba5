#include "train/run_lock.h"

#include "attend/input_error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

namespace attend::train {
namespace {

std::string content_of(int descriptor) {
  std::array<char, 32> text{};
  const auto length = ::pread(descriptor, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(length > 0 ? length : 0)};
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& directory)
    : descriptor_(::open((directory / kFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) {
    throw InputError(
        fmt::format("{} cannot be written: {}", directory.string(), std::strerror(errno)));
  }
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const auto holder = content_of(descriptor_);
    ::close(descriptor_);
    throw InputError(
        fmt::format("{}: process {} is writing to this run", directory.string(), holder));
  }
  const auto process = std::to_string(::getpid());
  // The process id is used only in the message above, so a failed write is ignored.
  [[maybe_unused]] const bool noted = ::ftruncate(descriptor_, 0) == 0 &&
                                      ::pwrite(descriptor_, process.data(), process.size(), 0) > 0;
}

RunLock::~RunLock() {
  ::close(descriptor_);
}

}  // namespace attend::train
