#include "attend/io/safetensors_header.h"

#include "attend/input_error.h"
#include "io/dtypes.h"
#include "io/files.h"
#include "io/parse_json.h"
#include "io/safetensors_layout.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>

namespace attend {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& what) {
  throw InputError("not a safetensors file: " + what);
}

/// Returns `value` if it is an unsigned integer, and throws otherwise. nlohmann::json would
/// silently convert -1, 1.5 and true to unsigned integers.
uint64_t to_unsigned(const json& value, const std::string& name) {
  if (!value.is_number_unsigned()) {
    fail(fmt::format("'{}': expected a non-negative integer, found {}", name, value.dump()));
  }
  return value.get<uint64_t>();
}

/// Dtypes of the format whose elements are smaller than a byte, and their sizes in bits.
constexpr std::array<std::pair<std::string_view, uint64_t>, 3> kSmallDtypes{{
    {"F4", 4},
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
}};

uint64_t bytes_of(const SafetensorsEntry& entry) {
  uint64_t bits = safetensors_element_bits(entry.dtype);
  for (const auto size : entry.shape) {
    if (__builtin_mul_overflow(bits, static_cast<uint64_t>(size), &bits)) {
      fail(fmt::format("'{}': its number of bits overflows 64 bits", entry.name));
    }
  }
  if (bits % 8 != 0) {
    fail(fmt::format("'{}': its {} bits are not a whole number of bytes", entry.name, bits));
  }
  return bits / 8;
}

SafetensorsEntry read_entry(const std::string& name, const json& fields) {
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = fields.at("dtype").get<std::string>();
  if (safetensors_element_bits(entry.dtype) == 0) {
    fail(fmt::format("'{}': unknown dtype '{}'", name, entry.dtype));
  }
  for (const auto& size : fields.at("shape")) {
    const auto number = to_unsigned(size, name);
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      fail(fmt::format("'{}': size {} in its shape is too large", name, number));
    }
    entry.shape.push_back(static_cast<int64_t>(number));
  }
  const auto& offsets = fields.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) {
    fail(fmt::format("'{}': expected two data_offsets, found {}", name, offsets.dump()));
  }
  entry.begin = to_unsigned(offsets[0], name);
  entry.end = to_unsigned(offsets[1], name);
  const uint64_t expected = bytes_of(entry);
  if (entry.end < entry.begin || entry.end - entry.begin != expected) {
    fail(fmt::format("'{}': data_offsets {} to {} do not match its dtype and shape ({} bytes)",
                     name, entry.begin, entry.end, expected));
  }
  return entry;
}

void check_coverage(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes) {
  uint64_t expected = 0;
  for (const auto& entry : entries) {
    if (entry.begin != expected) {
      fail(fmt::format("'{}' begins at byte {} of the tensor data, expected {}", entry.name,
                       entry.begin, expected));
    }
    expected = entry.end;
  }
  if (expected != data_bytes) {
    fail(fmt::format("found {} bytes of tensor data, expected {}", data_bytes, expected));
  }
}

/// Returns the length of the JSON header, and throws if the length is invalid. `start` is the
/// beginning of the file.
uint64_t header_length(std::string_view start, uint64_t file_bytes) {
  if (start.size() < kLengthBytes) {
    fail(fmt::format("expected at least {} bytes, found {}", kLengthBytes, start.size()));
  }
  const auto length = stated_header_length(start);
  if (length > std::min(kMaxHeaderBytes, file_bytes - kLengthBytes)) {
    fail(
        fmt::format("header length {} exceeds the remaining {} bytes of the file or the limit of "
                    "100 MB",
                    length, file_bytes - kLengthBytes));
  }
  return length;
}

/// Reads `bytes` bytes, or fewer if the stream ends before.
std::string read_up_to(std::istream& file, uint64_t bytes) {
  std::string text(bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// Parses the header of a file of `file_bytes` bytes. `start` contains the beginning of the file,
/// including the whole header.
SafetensorsHeader parse_start(std::string_view start, uint64_t file_bytes) {
  const auto length = header_length(start, file_bytes);
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  try {
    const auto parsed = with_source("not a safetensors file",
                                    [&] { return parse_json(start.substr(kLengthBytes, length)); });
    if (!parsed.is_object()) fail("the header is not a JSON object");
    for (const auto& [name, fields] : parsed.items()) {
      if (name == "__metadata__") {
        header.metadata = fields.get<std::map<std::string, std::string>>();
      } else {
        header.entries.push_back(read_entry(name, fields));
      }
    }
  } catch (const json::exception& error) {
    fail(message_of(error));
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_coverage(header.entries, file_bytes - header.data_offset);
  return header;
}

}  // namespace

uint64_t safetensors_element_bits(std::string_view dtype) {
  if (dtype.empty()) return 0;
  for (const auto& [name, bits] : kSmallDtypes) {
    if (name == dtype) return bits;
  }
  const auto* found = find_dtype(&Dtype::safetensors, dtype);
  return found == nullptr ? 0 : 8 * c10::elementSize(found->type);
}

SafetensorsHeader parse_safetensors_header(std::string_view file) {
  return parse_start(file, file.size());
}

SafetensorsHeader read_safetensors_header(std::istream& file) {
  file.seekg(0, std::ios::end);
  const auto end = static_cast<int64_t>(file.tellg());
  file.seekg(0);
  if (end < 0) fail("its size is unknown");
  const auto file_bytes = static_cast<uint64_t>(end);
  auto start = read_up_to(file, kLengthBytes);
  start += read_up_to(file, header_length(start, file_bytes));
  return parse_start(start, file_bytes);
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  auto file = open_to_read(path);
  return with_source(path.string(), [&] { return read_safetensors_header(file); });
}

}  // namespace attend
