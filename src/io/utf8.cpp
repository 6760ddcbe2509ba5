#include "attend/io/utf8.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <utf8.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace attend {
namespace {

/// Returns true for characters that a terminal does not show, and that change how it shows others.
/// The joiners U+200C and U+200D are needed in Persian and in emoji.
bool is_control(uint32_t character) {
  const auto between = [&](uint32_t first, uint32_t last) {
    return character >= first && character <= last;
  };
  return character < 0x20 || between(0x7F, 0x9F) || character == 0x61C || character == 0x200B ||
         between(0x200E, 0x200F) || between(0x2028, 0x202E) || between(0x2060, 0x206F) ||
         character == 0xFEFF;
}

void append_escaped(std::string& text, std::string_view bytes) {
  for (const char byte : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
}

}  // namespace

void check_utf8(std::string_view text, std::string_view source) {
  const auto invalid = utf8::find_invalid(text.begin(), text.end());
  if (invalid == text.end()) return;
  throw InputError(fmt::format("{}{}expected UTF-8 text, found byte 0x{:02X} at offset {}", source,
                               source.empty() ? "" : ": ", static_cast<unsigned char>(*invalid),
                               invalid - text.begin()));
}

std::string_view without_byte_order_mark(std::string_view text, std::string_view source) {
  using namespace std::string_view_literals;
  if (text.substr(0, 3) == "\xEF\xBB\xBF"sv) return text.substr(3);
  const auto start = text.substr(0, 2);
  const bool is_utf16 =
      start == "\xFF\xFE"sv || start == "\xFE\xFF"sv ||
      (text.size() >= 4 && (text[0] == '\0') != (text[1] == '\0') &&
       (text[2] == '\0') == (text[0] == '\0') && (text[3] == '\0') == (text[1] == '\0'));
  if (!is_utf16) return text;
  throw InputError(fmt::format(
      "{}{}expected UTF-8 text, found UTF-16; convert the file: iconv -f UTF-16 -t UTF-8", source,
      source.empty() ? "" : ": "));
}

TextPosition position_in(std::string_view text, std::size_t offset, const TextPosition& begin) {
  const auto before = text.substr(0, offset);
  const auto line_breaks = std::count(before.begin(), before.end(), '\n');
  const auto last = before.substr(before.rfind('\n') + 1);  // all if there is no line break
  return {.offset = begin.offset + before.size(),
          .line = begin.line + line_breaks,
          .column = (line_breaks == 0 ? begin.column : 1) +
                    std::count_if(last.begin(), last.end(),
                                  [](unsigned char byte) { return (byte & 0xC0) != 0x80; })};
}

std::string line_and_column(const TextPosition& position) {
  return fmt::format("line {}, column {}", position.line, position.column);
}

std::string line_and_column(std::string_view text, std::size_t offset) {
  return line_and_column(position_in(text, offset));
}

std::vector<std::string_view> split_characters(std::string_view text) {
  check_utf8(text);
  std::vector<std::string_view> characters;
  for (auto from = text.begin(); from != text.end();) {
    auto to = from;
    utf8::unchecked::next(to);
    characters.emplace_back(from, to);
    from = to;
  }
  return characters;
}

std::string printable(std::string_view bytes) {
  std::string text;
  for (auto from = bytes.begin(); from != bytes.end();) {
    const auto invalid = utf8::find_invalid(from, bytes.end());
    while (from != invalid) {
      const auto begin = from;
      const auto character = utf8::unchecked::next(from);
      const std::string_view encoded(begin, from);
      if (is_control(character))
        append_escaped(text, encoded);
      else
        text += encoded;
    }
    if (from != bytes.end()) append_escaped(text, {&*from++, 1});
  }
  return text;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  utf8::replace_invalid(bytes.begin(), bytes.end(), std::back_inserter(text));
  return text;
}

}  // namespace attend
