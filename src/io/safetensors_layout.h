#pragma once

#include <cstdint>
#include <string_view>

namespace attend {

// A safetensors file begins with the length of its header, which is JSON; the tensors follow.
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  ///< the format's own limit

/// The length that a file says, little endian, of which `start` has at least `kLengthBytes`.
inline uint64_t stated_header_length(std::string_view start) {
  uint64_t length = 0;
  for (uint64_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(start[i]);
  }
  return length;
}

}  // namespace attend
