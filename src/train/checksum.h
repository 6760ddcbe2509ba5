#pragma once

#include "attend/api.h"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace attend::train {

/// CRC-32C (Castagnoli, as in RFC 3720), the checksum of files of TensorBoard and of iSCSI.
/// `seed` is the checksum of what stands before these bytes, so that parts can be joined:
///
///     crc32c("123456789") == 0xE3069283
///     crc32c("6789", crc32c("12345")) == 0xE3069283
ATTEND_API uint32_t crc32c(std::string_view bytes, uint32_t seed = 0);

/// The checksum of a file of any size. Throws InputError if it is missing or cannot be read.
ATTEND_API uint32_t crc32c_of_file(const std::filesystem::path& path);

}  // namespace attend::train
