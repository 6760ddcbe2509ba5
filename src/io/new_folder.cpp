#include "io/new_folder.h"

#include "io/files.h"

#include <fmt/format.h>

namespace attend {

NewFolder::NewFolder(const std::filesystem::path& target)
    : target_(std::filesystem::absolute(target).lexically_normal()) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // the name ended in a slash
  path_ = target_.parent_path() / fmt::format(".{}.partial", target_.filename().string());
  std::filesystem::remove_all(path_);  // a killed process may have left this folder
  std::filesystem::create_directories(path_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void NewFolder::finish() {
  std::filesystem::rename(path_, target_);
  sync_to_disk(target_.parent_path());
}

}  // namespace attend
