#include "tokenizers/python_text.h"

#include "tokenizers/characters.h"
#include "tokenizers/unicode.h"

namespace attend::tokenizers {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;

/// Python counts the separators of ASCII as whitespace, too.
bool is_space(char32_t character) {
  return is_whitespace(character) || (character >= 0x1C && character <= 0x1F);
}

/// Returns true if a cased letter is the first character of `text` that does not belong to the word
/// before it, such as an apostrophe or an accent.
bool begins_with_letter(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto character = next_character(text, at);
    if (!is_case_ignorable(character)) return is_cased(character);
  }
  return false;
}

/// As `begins_with_letter`, from the end.
bool ends_with_letter(std::string_view text) {
  for (auto end = text.size(); end > 0;) {
    end = previous_position(text, end);
    auto at = end;
    const auto character = next_character(text, at);
    if (!is_case_ignorable(character)) return is_cased(character);
  }
  return false;
}

}  // namespace

std::string_view stripped(std::string_view text) {
  std::size_t begin = 0;
  for (auto next = begin; next < text.size(); begin = next) {
    if (!is_space(next_character(text, next))) break;
  }
  text.remove_prefix(begin);
  while (!text.empty()) {
    const auto last = previous_position(text, text.size());
    auto at = last;
    if (!is_space(next_character(text, at))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string lowercased(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto before = text.substr(0, at);
    const auto character = next_character(text, at);
    if (character == kCapitalSigma && ends_with_letter(before) &&
        !begins_with_letter(text.substr(at))) {
      result += "ς";
    } else {
      append_lowercase(result, character);
    }
  }
  return result;
}

}  // namespace attend::tokenizers
