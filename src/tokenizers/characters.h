#pragma once

#include "attend/api.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace attend::tokenizers {

/// Returns the character at `position` of valid UTF-8, and sets `position` to the next one.
inline char32_t next_character(std::string_view text, std::size_t& position) {
  const auto byte = [&] { return static_cast<unsigned char>(text[position++]); };
  const char32_t first = byte();
  if (first < 0x80) return first;
  if (first < 0xE0) return (first & 0x1F) << 6 | (byte() & 0x3Fu);
  if (first < 0xF0) {
    const char32_t high = (first & 0x0F) << 12 | (byte() & 0x3Fu) << 6;
    return high | (byte() & 0x3Fu);
  }
  char32_t high = (first & 0x07) << 18 | (byte() & 0x3Fu) << 12;
  high |= (byte() & 0x3Fu) << 6;
  return high | (byte() & 0x3Fu);
}

/// Returns the position of the character that ends at `end` of valid UTF-8.
inline std::size_t previous_position(std::string_view text, std::size_t end) {
  do --end;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

/// Returns the number of characters in valid UTF-8.
inline std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

inline void append_character(std::string& text, char32_t character) {
  const auto append = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) {
    append(character);
  } else if (character < 0x800) {
    append(0xC0 | character >> 6);
    append(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    append(0xE0 | character >> 12);
    append(0x80 | (character >> 6 & 0x3F));
    append(0x80 | (character & 0x3F));
  } else {
    append(0xF0 | character >> 18);
    append(0x80 | (character >> 12 & 0x3F));
    append(0x80 | (character >> 6 & 0x3F));
    append(0x80 | (character & 0x3F));
  }
}

/// Returns true if `text` is valid UTF-8.
bool is_utf8(std::string_view text);

/// Appends `bytes` to `text`, with invalid UTF-8 replaced by U+FFFD as Unicode recommends: one for
/// each longest part of a character, and for each other invalid byte. Python's
/// `bytes.decode(errors="replace")` does the same; utf8::replace_invalid counts differently.
void append_valid_utf8(std::string& text, std::string_view bytes);

/// Returns `text` with each `from` replaced by `to`. `from` must not be empty.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace attend::tokenizers
