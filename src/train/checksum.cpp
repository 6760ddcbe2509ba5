#include "train/checksum.h"

#include "attend/input_error.h"
#include "attend/io/utf8.h"
#include "io/files.h"
#include "io/parse_json.h"
#include "resolved.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <isa-l/crc.h>
#include <nlohmann/json.hpp>

#include <limits>

namespace attend::train {
namespace {

constexpr const char* kChecksum = "crc32c";

/// Returns the checksum of the values in `json`. It does not depend on white space or on the order
/// of keys, since nlohmann::json sorts the keys.
std::string checksum_of_json(const nlohmann::json& json) {
  return checksum_text(crc32c(json.dump()));
}

}  // namespace

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

uint32_t crc32c_of_file(const std::filesystem::path& path, uint32_t seed) {
  uint32_t checksum = seed;
  read_in_pieces(path, [&](std::string_view piece) { checksum = crc32c(piece, checksum); });
  return checksum;
}

std::string checksum_text(uint32_t checksum) {
  return fmt::format("{:08x}", checksum);
}

std::string checksum_of_file(const std::filesystem::path& path) {
  return checksum_text(crc32c_of_file(path));
}

std::string checksum_of(const std::map<std::string, torch::Tensor>& tensors) {
  uint32_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = contiguous_on_cpu(tensor);
    sum = crc32c(fmt::format("{} {} {}", name, c10::toString(tensor.scalar_type()),
                             fmt::join(tensor.sizes(), ",")),
                 sum);
    sum = crc32c({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, sum);
  }
  return checksum_text(sum);
}

std::string to_text_with_checksum(nlohmann::ordered_json json) {
  json[kChecksum] = checksum_of_json(nlohmann::json(json));
  return json.dump(2) + "\n";
}

nlohmann::ordered_json parse_with_checksum(const std::string& text) {
  auto json = parse_json(text);
  if (!json.is_object() || !json.contains(kChecksum)) {
    throw InputError(
        fmt::format("damaged: expected a JSON object with the key '{}', found none", kChecksum));
  }
  const auto expected = json[kChecksum];
  json.erase(kChecksum);
  const auto found = checksum_of_json(json);
  if (expected != found) {
    throw InputError(
        fmt::format("damaged: checksum \"{}\", expected {}", found, printable(expected.dump())));
  }
  return nlohmann::ordered_json::parse(text);
}

}  // namespace attend::train
