#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// One tensor in a safetensors file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;           ///< as in the file: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;  ///< no negative size; the product fits the bytes
  uint64_t begin = 0;          ///< first byte, counted from the end of the header
  uint64_t end = 0;            ///< one past the last byte
};

/// What stands before the tensors' bytes.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
  uint64_t data_offset = 0;  ///< where the bytes of the first tensor stand in the file
};

/// The size of one element in bytes, or 0 if safetensors has no such dtype.
uint64_t safetensors_element_size(std::string_view dtype);

/// Reads and checks the header of `file`, the content of a whole safetensors file: any input is
/// safe. Throws InputError if anything is not as the format says: lengths, JSON, duplicate names,
/// dtypes, shapes, and bytes that overlap, leave holes or do not end with the file.
/// Source: the format's description at github.com/huggingface/safetensors.
SafetensorsHeader parse_safetensors_header(std::string_view file);

/// The header of a file of any size, whose tensors are not read. Throws InputError as
/// `parse_safetensors_header` does, naming the file, and if it is missing.
///
///     read_safetensors_header("model.safetensors").entries.at(0).name
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

}  // namespace attend
