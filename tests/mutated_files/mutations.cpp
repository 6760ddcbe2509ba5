#include "mutated_files/mutations.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <vector>

namespace attend {
namespace {

using nlohmann::json;

std::size_t below(std::size_t count, Random& random) {
  return static_cast<std::size_t>(random() % std::max<std::size_t>(count, 1));
}

template <typename T>
const T& pick(const std::vector<T>& values, Random& random) {
  return values[below(values.size(), random)];
}

/// Returns `value` + 1, `value` - 1, twice `value`, `value` with one bit flipped, or a special
/// value such as the limit of a type.
uint64_t mutated_integer(uint64_t value, Random& random) {
  static const std::vector<uint64_t> kLimits{0,
                                             1,
                                             0x7F,
                                             0xFF,
                                             0x7FFF,
                                             0xFFFF,
                                             0x7FFFFFFF,
                                             0x80000000,
                                             0xFFFFFFFF,
                                             uint64_t{1} << 32,
                                             uint64_t{1} << 40,
                                             uint64_t{1} << 62,
                                             uint64_t{1} << 63,
                                             std::numeric_limits<uint64_t>::max() - 1,
                                             std::numeric_limits<uint64_t>::max()};
  switch (below(6, random)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return value * 2;
    case 3:
      return value ^ (uint64_t{1} << below(64, random));
    default:
      return pick(kLimits, random);
  }
}

uint64_t integer_at(const std::string& bytes, std::size_t at, std::size_t length) {
  uint64_t value = 0;
  for (std::size_t i = length; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  }
  return value;
}

/// Writes the lowest `length` bytes of `value` to `bytes` at position `at`, little-endian. Omits
/// the bytes beyond the end of `bytes`.
void set_integer(std::string& bytes, std::size_t at, std::size_t length, uint64_t value) {
  for (std::size_t i = 0; i < length && at + i < bytes.size(); ++i) {
    bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xFF);
  }
}

uint32_t crc32(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

void mutate_bytes_once(std::string& bytes, Random& random) {
  const auto at = below(bytes.size(), random);
  const auto length = 1 + below(std::min<std::size_t>(bytes.size(), 64), random);
  switch (below(8, random)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8, random));
      break;
    case 1:
      if (!bytes.empty()) bytes[at] = static_cast<char>(random());
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.erase(at, length);
      break;
    case 4:
      bytes.insert(at, bytes.substr(below(bytes.size(), random), length));
      break;
    case 5:
      for (std::size_t i = 0; i < length; ++i) bytes.insert(at, 1, static_cast<char>(random()));
      break;
    case 6:
      bytes.replace(at, std::min(length, bytes.size() - at),
                    bytes.substr(below(bytes.size(), random), length));
      break;
    default: {
      const std::size_t width = std::size_t{1} << below(4, random);
      if (at + width <= bytes.size()) {
        set_integer(bytes, at, width, mutated_integer(integer_at(bytes, at, width), random));
      }
    }
  }
}

/// Calls `visit` for `value` and for each value inside it.
void visit_all(json& value, const std::function<void(json&)>& visit) {
  visit(value);
  if (!value.is_structured()) return;
  for (auto& item : value) visit_all(item, visit);
}

json other_value(const json& value, const std::vector<json*>& all, Random& random) {
  if (value.is_number_integer() && below(4, random) != 0) {
    const auto number = mutated_integer(value.get<uint64_t>(), random);
    return below(2, random) == 0 ? json(number) : json(static_cast<int64_t>(number));
  }
  if (value.is_string() && below(2, random) == 0) {
    auto text = mutated_bytes(value.get<std::string>(), random);
    for (auto& c : text) c = static_cast<char>(c & 0x7F);  // valid UTF-8
    return text;
  }
  static const std::vector<json> kOthers{
      nullptr,       true,           false,           -1, 0.5, 1e300, "", "x", "../x",
      json::array(), json::object(), json::array({0})};
  return below(2, random) == 0 ? *pick(all, random) : pick(kOthers, random);
}

void mutate_json_once(json& root, Random& random) {
  std::vector<json*> all;
  std::vector<json*> integers;
  visit_all(root, [&](json& value) {
    all.push_back(&value);
    if (value.is_number_integer()) integers.push_back(&value);
  });
  auto& value =
      !integers.empty() && below(2, random) == 0 ? *pick(integers, random) : *pick(all, random);
  if (value.is_array() && !value.empty() && below(2, random) == 0) {
    const auto at = below(value.size(), random);
    const json item = value[at];
    if (below(2, random) == 0) {
      value.push_back(item);
    } else {
      value.erase(at);
    }
  } else if (value.is_object() && !value.empty() && below(2, random) == 0) {
    auto item = value.begin();
    std::advance(item, static_cast<std::ptrdiff_t>(below(value.size(), random)));
    const auto [key, content] = std::pair(item.key(), json(item.value()));
    value.erase(key);
    if (below(2, random) == 0) value[key + "_"] = content;
  } else {
    value =
        json(other_value(value, all, random));  // a copy, since the other value may contain `value`
  }
}

struct Field {
  std::size_t offset;
  std::size_t bytes;
};
// Fields in the headers of zip archives. Each entry has a central header (kCentral) and a local
// header (kLocal). Each field of kLocal has the same index in kCentral. kCrc and kSize are the
// indices of the checksum and of the uncompressed size. kEnd contains the fields of the record at
// the end of the archive.
constexpr std::size_t kCrc = 0;
constexpr std::size_t kSize = 2;
constexpr std::array<Field, 9> kCentral{
    {{16, 4}, {20, 4}, {24, 4}, {10, 2}, {8, 2}, {28, 2}, {30, 2}, {32, 2}, {42, 4}}};
constexpr std::array<Field, 7> kLocal{
    {{14, 4}, {18, 4}, {22, 4}, {8, 2}, {6, 2}, {26, 2}, {28, 2}}};
constexpr std::array<Field, 7> kEnd{{{4, 2}, {6, 2}, {8, 2}, {10, 2}, {12, 4}, {16, 4}, {20, 2}}};
constexpr std::size_t kLocalBytes = 30;

struct Headers {
  std::size_t central;
  std::size_t local;
};

/// Returns, for each entry of a valid archive, the offsets of its two headers.
std::vector<Headers> headers_of(const std::string& bytes) {
  std::vector<Headers> all;
  auto at = integer_at(bytes, bytes.rfind("PK\x05\x06") + 16, 4);
  while (bytes.compare(at, 4, "PK\x01\x02") == 0) {
    all.push_back({at, integer_at(bytes, at + 42, 4)});
    at += 46 + integer_at(bytes, at + 28, 2) + integer_at(bytes, at + 30, 2) +
          integer_at(bytes, at + 32, 2);
  }
  return all;
}

}  // namespace

std::string mutated_bytes(std::string bytes, Random& random) {
  for (auto times = 1 + below(4, random); times > 0; --times) mutate_bytes_once(bytes, random);
  return bytes;
}

json mutated_json(json value, Random& random) {
  for (auto times = 1 + below(3, random); times > 0; --times) mutate_json_once(value, random);
  return value;
}

std::string mutated_zip_headers(std::string bytes, Random& random) {
  const auto all = headers_of(bytes);
  const auto [central, local] = pick(all, random);
  const auto set_both = [&, central = central, local = local](std::size_t field, uint64_t value) {
    set_integer(bytes, central + kCentral[field].offset, kCentral[field].bytes, value);
    set_integer(bytes, local + kLocal[field].offset, kLocal[field].bytes, value);
  };
  const auto change = [&](std::size_t header, const Field& field) {
    const auto at = header + field.offset;
    set_integer(bytes, at, field.bytes,
                mutated_integer(integer_at(bytes, at, field.bytes), random));
  };
  switch (below(5, random)) {
    case 0:
      change(bytes.rfind("PK\x05\x06"), kEnd[below(kEnd.size(), random)]);
      break;
    case 1:
      change(local, kLocal[below(kLocal.size(), random)]);
      break;
    case 2: {  // the same change in both headers
      const auto field = below(kLocal.size(), random);
      change(central, kCentral[field]);
      set_both(field, integer_at(bytes, central + kCentral[field].offset, kCentral[field].bytes));
      break;
    }
    case 3: {  // another size, with the matching checksum; a larger entry overlaps the next one
      const auto data =
          local + kLocalBytes + integer_at(bytes, local + 26, 2) + integer_at(bytes, local + 28, 2);
      const auto size = below(bytes.size() - data, random);
      set_both(kSize, size);
      set_both(kSize - 1, size);
      set_both(kCrc, crc32(std::string_view(bytes).substr(data, size)));
      break;
    }
    default:
      change(central, kCentral[below(kCentral.size(), random)]);
  }
  return bytes;
}

Entries mutated_entries(Entries entries, const std::string& part, Random& random) {
  std::vector<std::string> names;
  for (const auto& [name, content] : entries) {
    if (name.find(part) != std::string::npos) names.push_back(name);
  }
  if (names.empty()) {
    for (const auto& [name, content] : entries) names.push_back(name);
  }
  const auto name = pick(names, random);
  const auto content = entries.at(name);
  switch (below(10, random)) {
    case 0:
      entries.erase(name);
      break;
    case 1:
      entries.erase(name);
      entries.emplace(name + "_", content);
      break;
    case 2:
      entries[name] = entries.at(pick(names, random));
      break;
    case 3:
      entries.emplace(name + "0", content);
      break;
    default:
      entries[name] = mutated_bytes(content, random);
  }
  return entries;
}

}  // namespace attend
