#pragma once

#include <utf8.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace attend::tokenizers {

/// Returns the character at `position` of valid UTF-8, and sets `position` to the next one.
inline char32_t next_character(std::string_view text, std::size_t& position) {
  const auto* at = text.data() + position;
  const auto character = utf8::unchecked::next(at);
  position = static_cast<std::size_t>(at - text.data());
  return character;
}

/// Returns the position of the character that ends at `end` of valid UTF-8.
inline std::size_t previous_position(std::string_view text, std::size_t end) {
  const auto* at = text.data() + end;
  utf8::unchecked::prior(at);
  return static_cast<std::size_t>(at - text.data());
}

/// Returns the number of characters in valid UTF-8.
inline std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(utf8::unchecked::distance(text.begin(), text.end()));
}

inline void append_character(std::string& text, char32_t character) {
  utf8::unchecked::append(character, std::back_inserter(text));
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
