#include "tokenizers/jinja/python_strings.h"

#include "tokenizers/characters.h"
#include "tokenizers/python_text.h"
#include "tokenizers/unicode.h"

#include <algorithm>
#include <unordered_set>

namespace attend::jinja {
namespace {

using tokenizers::next_character;
using tokenizers::previous_position;

/// Line breaks of `splitlines`.
bool is_line_break(char32_t character) {
  return (character >= U'\n' && character <= U'\r') || (character >= 0x1C && character <= 0x1E) ||
         character == 0x85 || character == 0x2028 || character == 0x2029;
}

}  // namespace

bool is_space(char32_t character) {
  return tokenizers::is_whitespace(character) || (character >= 0x1C && character <= 0x1F);
}

std::string_view stripped_of(std::string_view text, Sides sides, const std::string* characters) {
  std::unordered_set<char32_t> set;
  for (std::size_t at = 0; characters != nullptr && at < characters->size();)
    set.insert(next_character(*characters, at));
  const auto is_removed = [&](char32_t character) {
    return characters == nullptr ? is_space(character) : set.contains(character);
  };
  while (sides != Sides::right && !text.empty()) {
    std::size_t next = 0;
    if (!is_removed(next_character(text, next))) break;
    text.remove_prefix(next);
  }
  while (sides != Sides::left && !text.empty()) {
    const auto last = previous_position(text, text.size());
    auto at = last;
    if (!is_removed(next_character(text, at))) break;
    text = text.substr(0, last);
  }
  return text;
}

std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t limit,
                                  bool from_right, Budget& budget) {
  budget.search(text.size(), separator.size());
  std::vector<std::string> parts;
  while (limit < 0 || std::ssize(parts) < limit) {
    const auto at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == text.npos) break;
    budget.step();
    const auto after = text.substr(at + separator.size());
    parts.emplace_back(from_right ? after : text.substr(0, at));
    text = from_right ? text.substr(0, at) : after;
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_at_space(std::string_view text, int64_t limit, bool from_right,
                                        Budget& budget) {
  std::vector<std::string> parts;
  const auto side = from_right ? Sides::right : Sides::left;
  for (text = stripped_of(text, side, nullptr); !text.empty();
       text = stripped_of(text, side, nullptr)) {
    budget.step();
    if (limit >= 0 && std::ssize(parts) == limit) {
      parts.emplace_back(text);
      break;
    }
    // The end of the word that the rest begins with or, from the right, its start.
    auto at = from_right ? text.size() : 0;
    while (from_right ? at > 0 : at < text.size()) {
      auto next = from_right ? previous_position(text, at) : at;
      auto end = next;
      if (is_space(next_character(text, end))) break;
      at = from_right ? next : end;
    }
    parts.emplace_back(from_right ? text.substr(at) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> lines_of(std::string_view text, bool keep_ends, Budget& budget) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    budget.step();
    std::size_t end = 0;
    std::size_t next = 0;
    while (next < text.size()) {
      end = next;
      const auto character = next_character(text, next);
      if (!is_line_break(character)) {
        end = next;
        continue;
      }
      if (character == U'\r' && text.substr(next).starts_with('\n')) ++next;
      break;
    }
    lines.emplace_back(text.substr(0, keep_ends ? next : end));
    text.remove_prefix(next);
  }
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view replacement,
                     int64_t count, Budget& budget) {
  std::string result;
  if (count < 0) count = INT64_MAX;
  const auto may_replace = [&] { return count != 0 && result.size() <= Budget::kMaxText; };
  if (old.empty()) {  // the replacement is put before each character and at the end
    for (const auto character : characters_of(text)) {
      if (may_replace()) {
        result += replacement;
        --count;
      }
      result += character;
    }
    if (may_replace()) result += replacement;
    budget.allocate(result.size());
    return result;
  }
  budget.search(text.size(), old.size());
  while (may_replace()) {
    const auto at = text.find(old);
    if (at == text.npos) break;
    result += text.substr(0, at);
    result += replacement;
    text.remove_prefix(at + old.size());
    --count;
  }
  result += text;
  budget.allocate(result.size());
  return result;
}

int64_t count_of(std::string_view text, std::string_view part, Budget& budget) {
  if (part.empty()) return static_cast<int64_t>(tokenizers::count_characters(text)) + 1;
  budget.search(text.size(), part.size());
  int64_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

std::string uppercased(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();)
    tokenizers::append_uppercase(result, next_character(text, at));
  return result;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  std::size_t at = 0;
  const auto first = next_character(text, at);
  std::string lower;
  tokenizers::append_lowercase(lower, first);
  std::string result;
  tokenizers::append_uppercase(result, first, tokenizers::LetterCase::title);
  return result + tokenizers::lowercased(text).substr(lower.size());
}

std::string title_of(std::string_view text) {
  std::string result;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = next_character(text, at);
    if (in_word)
      tokenizers::append_lowercase(result, character);
    else
      tokenizers::append_uppercase(result, character, tokenizers::LetterCase::title);
    in_word = tokenizers::is_cased(character);
  }
  return result;
}

bool has_case(std::string_view text, bool upper) {
  using tokenizers::LetterCase;
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const auto letter = tokenizers::letter_case(next_character(text, at));
    if (letter == LetterCase::none) continue;
    if (letter != (upper ? LetterCase::upper : LetterCase::lower)) return false;
    found = true;
  }
  return found;
}

}  // namespace attend::jinja
