#include "tokenizers/precompiled_charsmap.h"

#include "attend/input_error.h"
#include "tokenizers/characters.h"
#include "tokenizers/unicode.h"

#include <fmt/format.h>

#include <cstring>

namespace attend::tokenizers {
namespace {

int value_of_base64(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

std::string decode_base64(std::string_view text) {
  const auto size = text.size();
  while (text.ends_with('=') && size - text.size() < 2) text.remove_suffix(1);
  if (size % 4 != 0 || text.size() % 4 == 1) {
    throw InputError(fmt::format("expected base64, found {} characters", size));
  }
  std::string bytes;
  bytes.reserve(size / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = value_of_base64(c);
    if (value < 0)
      throw InputError(
          fmt::format("expected base64, found the byte 0x{:02X}", static_cast<unsigned char>(c)));
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return bytes;
}

// JsonFields of a unit of darts-clone's double array.
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t value_of(uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
uint32_t label_of(uint32_t unit) {
  return unit & 0x800000FF;
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & 1U << 9) >> 6);
}

constexpr std::size_t kClusterBytes = 6;

}  // namespace

PrecompiledCharsmap::PrecompiledCharsmap(std::string_view base64) {
  const auto bytes = decode_base64(base64);
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes) {
    throw InputError(fmt::format("found {} bytes, expected at least 4", bytes.size()));
  }
  // Little-endian, as all platforms of this library.
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > bytes.size() - 4) {
    throw InputError(fmt::format("the trie has {} bytes, expected a multiple of 4, at most {}",
                                 trie_bytes, bytes.size() - 4));
  }
  trie_.resize(trie_bytes / 4);
  std::memcpy(trie_.data(), bytes.data() + 4, trie_bytes);
  replacements_ = bytes.substr(4 + trie_bytes);
  if (!is_utf8(replacements_)) throw InputError("the replacements are not UTF-8, expected UTF-8");
}

bool PrecompiledCharsmap::find(std::string_view text, std::string_view& replacement) const {
  std::size_t node = offset_of(trie_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return false;
    node ^= byte;
    if (node >= trie_.size() || label_of(trie_[node]) != byte) return false;
    const auto unit = trie_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= trie_.size()) return false;
    const auto begin = value_of(trie_[node]);
    // A damaged file may point outside of the replacements, or into a character.
    if (begin >= replacements_.size() ||
        (static_cast<unsigned char>(replacements_[begin]) & 0xC0) == 0x80) {
      return false;
    }
    const auto end = replacements_.find('\0', begin);
    replacement = std::string_view(replacements_).substr(begin, end - begin);
    return true;
  }
  return false;
}

std::string PrecompiledCharsmap::normalized(std::string_view text) const {
  std::string result;
  result.reserve(text.size());
  std::string_view replacement;
  for (std::size_t begin = 0; begin < text.size();) {
    auto end = begin;
    auto last = next_character(text, end);
    int32_t state = 0;
    while (end < text.size()) {
      auto next = end;
      const auto character = next_character(text, next);
      // Between two ASCII characters, only CR LF is not a break.
      const bool is_break = last < 0x80 && character < 0x80
                                ? last != '\r' || character != '\n'
                                : is_grapheme_break(last, character, state);
      if (is_break) break;
      last = character;
      end = next;
    }
    const auto cluster = text.substr(begin, end - begin);
    if (cluster.size() < kClusterBytes && find(cluster, replacement)) {
      result += replacement;
    } else {
      for (std::size_t at = 0; at < cluster.size();) {
        const auto from = at;
        next_character(cluster, at);
        const auto character = cluster.substr(from, at - from);
        result += find(character, replacement) ? replacement : character;
      }
    }
    begin = end;
  }
  return result;
}

}  // namespace attend::tokenizers
