#include "attend/train/append_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace attend::train {
namespace {

std::runtime_error cannot_be_written(const std::filesystem::path& path) {
  return std::runtime_error(fmt::format("{}: cannot be written: {}", path.string(),
                                        std::generic_category().message(errno)));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, const char* mode)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), mode)) {
  if (!file_) throw cannot_be_written(path_);
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
}

void AppendFile::append(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) < bytes.size())
    throw cannot_be_written(path_);
}

}  // namespace attend::train
