#include "tokenizers/characters.h"

#include <algorithm>
#include <cstdint>

namespace attend::tokenizers {
namespace {

/// Part of a text that begins at some position.
struct Part {
  std::size_t size;
  bool is_valid;  ///< a character; otherwise, bytes that one U+FFFD replaces
};

Part first_part(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  if (first < 0x80) return {1, true};
  if (first < 0xC2 || first > 0xF4) return {1, false};
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte has a smaller range after some first bytes: no surrogates, no overlong forms.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size()) return {i, false};
    const bool continues =
        i == 1 ? byte(i) >= low && byte(i) <= high : byte(i) >= 0x80 && byte(i) <= 0xBF;
    if (!continues) return {i, false};
  }
  return {size, true};
}

/// Returns the number of bytes before the first invalid one.
std::size_t valid_size(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    if (static_cast<unsigned char>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const auto part = first_part(text.substr(position));
    if (!part.is_valid) break;
    position += part.size;
  }
  return position;
}

}  // namespace

bool is_utf8(std::string_view text) {
  return valid_size(text) == text.size();
}

void append_valid_utf8(std::string& text, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto valid = valid_size(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    text += "\uFFFD";
    bytes.remove_prefix(first_part(bytes).size);
  }
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (;;) {
    const auto found = text.find(from);
    replaced += text.substr(0, found);
    if (found == text.npos) return replaced;
    replaced += to;
    text.remove_prefix(found + from.size());
  }
}

}  // namespace attend::tokenizers
