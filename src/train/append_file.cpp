#include "train/append_file.h"

#include "io/files.h"

#include <cerrno>

namespace attend::train {

AppendFile::AppendFile(std::filesystem::path path, const char* mode)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), mode)) {
  if (!file_) throw_unwritable(path_, errno);
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
}

void AppendFile::append(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) < bytes.size())
    throw_unwritable(path_, errno);
}

}  // namespace attend::train
