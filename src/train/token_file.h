#pragma once

#include "attend/api.h"
#include "attend/io/tokenizer.h"
#include "io/mapped_file.h"

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace attend::train {

/// A file with the tokens of texts that are larger than the memory: a safetensors file with the
/// tensor `tokens` (N), uint8, uint16 or int32, and the tensors `tokenizer/NAME`, uint8: the bytes
/// of the files of the tokenizer. The metadata says of which texts the tokens are.
class ATTEND_API TokenFile {
 public:
  /// Maps a file into memory and checks its header. Throws InputError if the file is missing or
  /// damaged, or is not a token file.
  explicit TokenFile(const std::filesystem::path& path);

  /// The values that `write_token_file` was called with.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The files of the tokenizer.
  const std::map<std::string, std::string>& tokenizer_files() const { return tokenizer_files_; }
  /// The number of tokens.
  int64_t num_tokens() const { return num_tokens_; }
  /// The dtype of the tokens.
  c10::ScalarType dtype() const { return dtype_; }
  /// The tokens, aligned for their dtype.
  std::string_view bytes() const { return bytes_; }

 private:
  MappedFile file_;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, std::string> tokenizer_files_;
  int64_t num_tokens_ = 0;
  c10::ScalarType dtype_ = c10::ScalarType::Int;
  std::string_view bytes_;
};

/// Writes a token file atomically. `write_tokens` calls its argument with the bytes of successive
/// tokens, and returns the metadata. Throws std::runtime_error if the file cannot be written.
ATTEND_API void write_token_file(
    const std::filesystem::path& path, const Tokenizer& tokenizer, c10::ScalarType dtype,
    const std::function<std::map<std::string, std::string>(
        const std::function<void(std::string_view bytes)>& write)>& write_tokens);

}  // namespace attend::train
