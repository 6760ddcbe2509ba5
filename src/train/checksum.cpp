#include "attend/train/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace attend::train {

uint32_t crc32c(std::string_view bytes, uint32_t seed) {
  constexpr std::size_t kMost = 1 << 30;  // the library counts in int
  uint32_t state = ~seed;                 // and leaves the inversions at both ends to its caller
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, std::min(bytes.size(), kMost));
    // It reads only, but takes a pointer to what is not const.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(part.data()));
    state = crc32_iscsi(data, static_cast<int>(part.size()), state);
    bytes.remove_prefix(part.size());
  }
  return ~state;
}

}  // namespace attend::train
