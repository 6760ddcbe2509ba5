#include "support/event_file.h"

#include "io/files.h"

#include <cstring>
#include <stdexcept>
#include <string_view>

namespace attend {
namespace {

/// Computes CRC-32C bit by bit, as in its definition.
uint32_t slow_crc32c(std::string_view bytes) {
  uint32_t state = 0xFFFFFFFF;
  for (const char byte : bytes) {
    state ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ (state & 1 ? 0x82F63B78 : 0);
  }
  return ~state;
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }

  std::string_view take(std::size_t count) {
    if (count > bytes_.size()) throw std::runtime_error("the event file is truncated");
    const auto taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<unsigned char>();
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }

  /// Reads `count` bytes and verifies the masked checksum that follows.
  std::string_view checked(std::size_t count) {
    const auto bytes = take(count);
    const auto rotated = number<uint32_t>() - 0xA282EAD8u;
    if (((rotated >> 17) | (rotated << 15)) != slow_crc32c(bytes))
      throw std::runtime_error("the event file has a wrong checksum");
    return bytes;
  }

 private:
  std::string_view bytes_;
};

/// Returns the fields of a protobuf message by number, as raw bytes.
std::multimap<uint64_t, std::string> fields(std::string_view message) {
  std::multimap<uint64_t, std::string> found;
  for (Reader reader(message); !reader.done();) {
    const auto key = reader.varint();
    std::string bytes;
    switch (key & 7) {
      case 0: {
        const auto value = reader.varint();
        bytes.assign(reinterpret_cast<const char*>(&value), sizeof value);
        break;
      }
      case 1:
        bytes = reader.take(8);
        break;
      case 2:
        bytes = reader.take(reader.varint());
        break;
      case 5:
        bytes = reader.take(4);
        break;
      default:
        throw std::runtime_error("a protobuf message has an unknown wire type");
    }
    found.emplace(key >> 3, bytes);
  }
  return found;
}

Event parse_event(std::string_view data) {
  Event event;
  for (const auto& [number, bytes] : fields(data)) {
    if (number == 1) event.wall_time = Reader(bytes).number<double>();
    if (number == 2) event.step = Reader(bytes).number<int64_t>();
    if (number == 3) event.file_version = bytes;
    if (number == 7) event.restarts = Reader(fields(bytes).find(1)->second).number<int64_t>() == 1;
    if (number != 5) continue;
    for (const auto& [ignored, value] : fields(bytes)) {
      const auto parts = fields(value);
      event.scalars[parts.find(1)->second] = Reader(parts.find(2)->second).number<float>();
    }
  }
  return event;
}

}  // namespace

std::vector<Event> read_events(const std::filesystem::path& path) {
  const auto bytes = read_bytes(path);
  std::vector<Event> events;
  for (Reader reader(bytes); !reader.done();) {
    const auto length = Reader(reader.checked(8)).number<uint64_t>();
    events.push_back(parse_event(reader.checked(length)));
  }
  return events;
}

}  // namespace attend
