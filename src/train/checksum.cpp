#include "train/checksum.h"

#include "io/files.h"

#include <fmt/format.h>
#include <isa-l/crc.h>

#include <limits>

namespace attend::train {

uint32_t crc32c(std::string_view bytes, uint32_t seed) {
  // crc32_iscsi does not invert the checksum, takes the length as an int, and takes a non-const
  // pointer although it only reads.
  constexpr std::size_t kMaxLength = std::numeric_limits<int>::max();
  uint32_t checksum = ~seed;
  while (!bytes.empty()) {
    const auto part = bytes.substr(0, kMaxLength);
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

std::string checksum_of(const std::map<std::string, torch::Tensor>& tensors) {
  uint32_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.detach().cpu().contiguous();
    sum = crc32c({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, sum);
  }
  return fmt::format("{:08x}", sum);
}

}  // namespace attend::train
