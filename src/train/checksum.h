#pragma once

#include "attend/api.h"
#include "attend/train/checksum.h"

#include <nlohmann/json_fwd.hpp>
#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace attend::train {

/// Returns the CRC-32C (Castagnoli, RFC 3720) of `bytes`, as in TFRecord files. To compute it in
/// parts, pass the checksum of the preceding bytes as `seed`:
///
///     crc32c("123456789") == 0xE3069283
///     crc32c("6789", crc32c("12345")) == 0xE3069283
ATTEND_API uint32_t crc32c(std::string_view bytes, uint32_t seed = 0);

/// Returns the CRC-32C of a file. Throws InputError if the file cannot be read. `seed` is the
/// checksum of preceding bytes, such as those of another file.
ATTEND_API uint32_t crc32c_of_file(const std::filesystem::path& path, uint32_t seed = 0);

/// Returns a CRC-32C as 8 hex digits.
ATTEND_API std::string checksum_text(uint32_t checksum);

/// Returns one CRC-32C of the names, dtypes, shapes and elements of all tensors, as 8 hex digits.
/// The tensors are taken in the order of their names.
ATTEND_API std::string checksum_of(const std::map<std::string, torch::Tensor>& tensors);

/// Returns a JSON object as text, with a checksum of its values as the last key, "crc32c".
ATTEND_API std::string to_text_with_checksum(nlohmann::ordered_json json);

/// Parses the result of `to_text_with_checksum`. Throws InputError if the text is not a JSON object
/// or has no or another checksum. White space and the order of keys may differ.
ATTEND_API nlohmann::ordered_json parse_with_checksum(const std::string& text);

}  // namespace attend::train
