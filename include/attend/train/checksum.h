#pragma once

#include <cstdint>
#include <string_view>

namespace attend::train {

/// The CRC-32C of `bytes` (Castagnoli's polynomial, as in iSCSI, RFC 3720). `seed` is the checksum
/// of what stands before them, 0 if nothing does.
///
///     crc32c("123456789") == 0xE3069283;
///     crc32c("6789", crc32c("12345")) == 0xE3069283;
uint32_t crc32c(std::string_view bytes, uint32_t seed = 0);

}  // namespace attend::train
