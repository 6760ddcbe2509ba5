#pragma once

#include "attend/io/safetensors_header.h"

#include <cstdint>
#include <iosfwd>
#include <string_view>

namespace attend {

// Layout of a safetensors file: header length (uint64, little endian), JSON header, tensor data.
constexpr uint64_t kLengthBytes = 8;               ///< size of the header length in bytes
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  ///< maximum header length of the format

/// Returns the header length that is written in a file. `start` contains at least the first
/// `kLengthBytes` bytes of the file.
inline uint64_t stated_header_length(std::string_view start) {
  uint64_t length = 0;
  for (uint64_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(start[i]);
  }
  return length;
}

/// Returns true if a file starts with a plausible header length, followed by '{'. The length is
/// checked because the ninth byte of a text file may also be '{'. The first eight bytes of a text
/// file encode a length above kMaxHeaderBytes.
inline bool begins_as_safetensors(std::string_view start) {
  if (start.size() <= kLengthBytes || start[kLengthBytes] != '{') return false;
  return stated_header_length(start) <= kMaxHeaderBytes;
}

/// Reads the header of a safetensors file. The stream, which must support seeking, is then at the
/// first byte of the tensor data. Throws InputError if the file is invalid.
SafetensorsHeader read_safetensors_header(std::istream& file);

}  // namespace attend
