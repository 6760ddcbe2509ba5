#include "io/mapped_file.h"

#include "attend/input_error.h"
#include "io/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace attend {

MappedFile::MappedFile(const std::filesystem::path& path) {
  check_is_regular(path);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  void* mapped = nullptr;
  if (file >= 0 && ::fstat(file, &status) == 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    // A mapping of no bytes is an error.
    if (size_ > 0) mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
  } else {
    mapped = MAP_FAILED;
  }
  const int error = errno;
  if (file >= 0) ::close(file);  // the mapping remains
  if (mapped == MAP_FAILED) {
    throw InputError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(error)));
  }
  data_ = static_cast<const char*>(mapped);
}

MappedFile::~MappedFile() {
  if (size_ > 0) ::munmap(const_cast<char*>(data_), size_);
}

}  // namespace attend
