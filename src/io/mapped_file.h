#pragma once

#include "attend/api.h"

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace attend {

/// The content of a file, mapped into memory for reading (mmap): a page is read when it is needed,
/// and its memory is free for others at any time. The content is undefined if another process
/// shortens or rewrites the file in place; a file that is replaced by renaming does not change.
///
///     const MappedFile file("text.safetensors");
///     file.bytes().size();
class ATTEND_API MappedFile {
 public:
  /// Throws InputError if the file does not exist, is not a regular file, or cannot be mapped.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Returns the content.
  std::string_view bytes() const { return {data_, size_}; }

 private:
  const char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace attend
