#include "train/checksum.h"

#include "io/files.h"

#include <isa-l/crc.h>

#include <limits>

namespace attend::train {

uint32_t crc32c(std::string_view bytes, uint32_t seed) {
  // ISA-L leaves the inversions before and after to its callers, takes the length as an int, and
  // does not change the bytes although it says so.
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  uint32_t checksum = ~seed;
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, kMost);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(part.data()));
    checksum = crc32_iscsi(data, static_cast<int>(part.size()), checksum);
    bytes.remove_prefix(part.size());
  }
  return ~checksum;
}

uint32_t crc32c_of_file(const std::filesystem::path& path) {
  uint32_t checksum = 0;
  read_in_pieces(path, [&](std::string_view piece) { checksum = crc32c(piece, checksum); });
  return checksum;
}

}  // namespace attend::train
