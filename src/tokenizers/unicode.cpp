#include "tokenizers/unicode.h"

#include "tokenizers/characters.h"
#include "tokenizers/unicode_exceptions.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace attend::tokenizers {
namespace {

/// Returns the range that contains a character, or the end.
template <typename Ranges>
auto find_range(const Ranges& ranges, char32_t character) {
  const auto found =
      std::lower_bound(ranges.begin(), ranges.end(), character,
                       [](const auto& range, char32_t value) { return range.last < value; });
  return found != ranges.end() && found->first <= character ? found : ranges.end();
}

template <typename Ranges>
bool contains(const Ranges& ranges, char32_t character) {
  return find_range(ranges, character) != ranges.end();
}

/// Returns true for characters that are newer than Unicode 14. The exceptions are relative to this
/// version, but utf8proc 2.8 knows Unicode 15, and later versions know more.
bool is_new(char32_t character) {
  return character >= kNewCharacters.front().first && contains(kNewCharacters, character);
}

utf8proc_category_t category_of(char32_t character) {
  if (is_new(character)) return UTF8PROC_CATEGORY_CN;
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool is_letter_or_mark(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME;
}
bool is_mark(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}
bool is_number(utf8proc_category_t category) {
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

/// Canonical combining class: marks with different classes are sorted by it; 0 for other
/// characters.
int combining_class(char32_t character) {
  if (character < 0x300 || contains(kUnordered, character) || is_new(character)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->combining_class;
}

void append_decomposed(std::u32string& text, char32_t character, bool compatible) {
  if (character < 0x80 || contains(kUndecomposed, character) || is_new(character)) {
    text += character;
    return;
  }
  std::array<utf8proc_int32_t, 32> parts{};
  int boundary = 0;
  const int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  const auto count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), parts.data(), parts.size(),
                              static_cast<utf8proc_option_t>(options), &boundary);
  if (count < 1 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
    throw std::logic_error("utf8proc: unexpected length of a decomposition");
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    text += static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
  }
}

/// Sorts each run of combining marks by their classes.
void sort_marks(std::u32string& text) {
  for (auto at = text.begin(); at != text.end();) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end =
        std::find_if(at, text.end(), [](char32_t c) { return combining_class(c) == 0; });
    std::stable_sort(
        at, end, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

/// The only composed character that is newer than the reference's table for normal forms.
constexpr char32_t kNewComposed = 0x11938;

/// Appends `run`, a decomposed text, in composed form.
void append_composed(std::u32string& text, std::u32string_view run) {
  std::vector<utf8proc_int32_t> buffer(run.begin(), run.end());
  const auto count =
      utf8proc_normalize_utf32(buffer.data(), static_cast<utf8proc_ssize_t>(buffer.size()),
                               static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const auto character = static_cast<char32_t>(buffer[static_cast<std::size_t>(i)]);
    if (character == kNewComposed) {
      text += U"\U00011935\U00011930";
    } else {
      text += character;
    }
  }
}

/// Returns true if the reference, which has an older table, composes nothing across a character.
bool is_unknown_to_composition(char32_t character) {
  return character >= 0x300 &&
         (contains(kUnordered, character) || is_new(character) || character == kNewComposed);
}

/// Returns the composed form of a decomposed text.
std::u32string composed(std::u32string_view text) {
  std::u32string result;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool is_end = i == text.size();
    if (!is_end && !is_unknown_to_composition(text[i])) continue;
    append_composed(result, text.substr(begin, i - begin));
    if (!is_end) result += text[i];
    begin = i + 1;
  }
  return result;
}

}  // namespace

bool is_whitespace(char32_t character) {
  if (character < 0x80) return character == ' ' || (character >= 9 && character <= 13);
  return character == 0x85 || character == 0xA0 || character == 0x1680 ||
         (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
         character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

bool is_numeric(char32_t character) {
  if (character < 0x80) return character >= '0' && character <= '9';
  return is_number(category_of(character)) != contains(kNumeric, character);
}

bool is_punctuation(char32_t character) {
  if (character < 0x80) {
    return (character >= '!' && character <= '/') || (character >= ':' && character <= '@') ||
           (character >= '[' && character <= '`') || (character >= '{' && character <= '~');
  }
  const auto category = category_of(character);
  const bool is_punctuation = category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
  return is_punctuation != contains(kPunctuation, character);
}

bool is_word(char32_t character) {
  if (character < 0x80) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9') || character == '_';
  }
  const auto category = category_of(character);
  const bool is_word = is_letter_or_mark(category) || category == UTF8PROC_CATEGORY_ND ||
                       category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC;
  return is_word != contains(kWord, character);
}

bool is_control(char32_t character) {
  if (character < 0x80) return character < ' ' || character == 0x7F;
  const auto category = category_of(character);
  const bool is_control = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                          category == UTF8PROC_CATEGORY_CO;
  return is_control != contains(kControl, character);
}

bool is_nonspacing_mark(char32_t character) {
  if (character < 0x300) return false;
  return (category_of(character) == UTF8PROC_CATEGORY_MN) != contains(kNonspacing, character);
}

bool is_combining_mark(char32_t character) {
  if (character < 0x300) return false;
  return is_mark(category_of(character)) != contains(kCombining, character);
}

bool is_cased(char32_t character) {
  const auto category = category_of(character);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
}

bool is_case_ignorable(char32_t character) {
  constexpr std::u32string_view kPunctuation =
      U"'.:\u00B7\u0387\u055F\u05F4\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  const auto category = category_of(character);
  return kPunctuation.find(character) != kPunctuation.npos || category == UTF8PROC_CATEGORY_MN ||
         category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK;
}

void append_lowercase(std::string& text, char32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character >= 'A' && character <= 'Z' ? character + 32 : character);
  } else if (character == 0x130) {
    text += "i\u0307";
  } else if (const auto found = find_range(kLowercase, character); found != kLowercase.end()) {
    append_character(text, character + static_cast<char32_t>(found->value));
  } else if (is_new(character)) {
    append_character(text, character);
  } else {
    const auto lower = utf8proc_tolower(static_cast<utf8proc_int32_t>(character));
    append_character(text, static_cast<char32_t>(lower));
  }
}

bool is_printable(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_ZS:
      return character == U' ';
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t character) {
  const auto category = category_of(character);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t character) {
  return category_of(character) == UTF8PROC_CATEGORY_ND || character == U'\u00B2' ||
         character == U'\u00B3' || character == U'\u00B9';
}

LetterCase letter_case(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_LU:
      return LetterCase::upper;
    case UTF8PROC_CATEGORY_LL:
      return LetterCase::lower;
    case UTF8PROC_CATEGORY_LT:
      return LetterCase::title;
    default:
      return LetterCase::none;
  }
}

void append_uppercase(std::string& text, char32_t character, LetterCase letter_case) {
  struct Several {
    char32_t character;
    const char* upper;
    const char* title;
  };
  static constexpr std::array<Several, 9> kSeveral{{{U'ß', "SS", "Ss"},
                                                    {U'\u0149', "ʼN", "ʼN"},
                                                    {U'\uFB00', "FF", "Ff"},
                                                    {U'\uFB01', "FI", "Fi"},
                                                    {U'\uFB02', "FL", "Fl"},
                                                    {U'\uFB03', "FFI", "Ffi"},
                                                    {U'\uFB04', "FFL", "Ffl"},
                                                    {U'\uFB05', "ST", "St"},
                                                    {U'\uFB06', "ST", "St"}}};
  const bool is_title = letter_case == LetterCase::title;
  const auto* several = std::ranges::find(kSeveral, character, &Several::character);
  if (several != kSeveral.end()) {
    text += is_title ? several->title : several->upper;
    return;
  }
  const auto code = static_cast<utf8proc_int32_t>(character);
  append_character(
      text, static_cast<char32_t>(is_title ? utf8proc_totitle(code) : utf8proc_toupper(code)));
}

std::string normalized(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::nfkd || form == NormalForm::nfkc;
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  // Text below this character is in the normal form already: 0x80, or 0x300, where marks begin.
  const unsigned char first_affected = composes && !compatible ? 0xCC : 0x80;
  if (std::ranges::all_of(
          text, [&](char byte) { return static_cast<unsigned char>(byte) < first_affected; })) {
    return std::string(text);
  }
  std::u32string characters;
  characters.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    append_decomposed(characters, next_character(text, at), compatible);
  }
  sort_marks(characters);
  if (composes) characters = composed(characters);
  std::string result;
  result.reserve(text.size());
  for (const auto character : characters) append_character(result, character);
  return result;
}

bool is_grapheme_break(char32_t before, char32_t after, int32_t& state) {
  // The reference knows the new characters, which extend clusters like older ones of their
  // category.
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(known_to_regex(before)),
                                          static_cast<utf8proc_int32_t>(known_to_regex(after)),
                                          &state);
}

char32_t known_to_regex(char32_t character) {
  if (character < kNewCharacters.front().first) return character;
  const auto found = find_range(kNewCharacters, character);
  return found == kNewCharacters.end() ? character : static_cast<char32_t>(found->value);
}

}  // namespace attend::tokenizers
