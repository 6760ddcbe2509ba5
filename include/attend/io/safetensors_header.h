#pragma once

#include "attend/api.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Header entry of one tensor in a safetensors file.
struct SafetensorsEntry {
  std::string name;            ///< as in the state dict
  std::string dtype;           ///< as in the file: "F32", "BF16", "I64", ...
  std::vector<int64_t> shape;  ///< sizes, at least 0
  uint64_t begin = 0;          ///< offset of the first byte, from the end of the header
  uint64_t end = 0;            ///< offset after the last byte
};

/// Header of a safetensors file.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        ///< sorted by offset
  std::map<std::string, std::string> metadata;  ///< the header's `__metadata__`
  uint64_t data_offset = 0;                     ///< offset of the tensor data in the file
};

/// Returns the size of one element in bits, or 0 if the format has no such dtype.
ATTEND_API uint64_t safetensors_element_bits(std::string_view dtype);

/// Parses and validates the header of `file`, the content of a whole safetensors file. Safe for
/// untrusted input. Throws InputError if a length, the JSON, a dtype or a shape is invalid, if a
/// name occurs twice, or if tensor data overlaps, has gaps or does not end at the end of the file.
/// The format is documented at github.com/huggingface/safetensors, section Format.
ATTEND_API SafetensorsHeader parse_safetensors_header(std::string_view file);

/// Reads the header of a file, but not its tensors. Throws InputError if the file does not exist or
/// is not a valid safetensors file. The message names the file.
///
///     read_safetensors_header("model.safetensors").entries.at(0).name
ATTEND_API SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

}  // namespace attend
