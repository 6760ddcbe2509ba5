#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace attend::tokenizers {

// Properties of characters as the reference, the Python package tokenizers, knows them. Its parts
// have tables of different versions of Unicode, so that there are several properties with similar
// names. unicode_exceptions.h lists the differences to Unicode 14.

bool is_whitespace(char32_t character);
/// Decimal digits and all other numbers.
bool is_numeric(char32_t character);
/// Punctuation, and the symbols of ASCII.
bool is_punctuation(char32_t character);
/// Part of a word: letters, marks, decimal digits, connectors and joiners.
bool is_word(char32_t character);
/// Control and format characters and private use.
bool is_control(char32_t character);
/// Marks that BertNormalizer removes as accents.
bool is_nonspacing_mark(char32_t character);
/// Marks that StripAccents removes.
bool is_combining_mark(char32_t character);

/// Letters with a case, without the few symbols that have one.
bool is_cased(char32_t character);
/// Characters inside of a word or after it, between which a letter at the end of a word is looked
/// for: marks, modifiers, apostrophes and full stops.
bool is_case_ignorable(char32_t character);

/// Appends the lowercase letter of `character`, which may be two characters.
void append_lowercase(std::string& text, char32_t character);

// Properties as Python 3.11 knows them, which has Unicode 14.

/// True if `repr` in Python shows the character itself.
bool is_printable(char32_t character);
bool is_letter(char32_t character);
/// Decimal digits, and the superscripts of Latin-1.
bool is_digit(char32_t character);

enum class LetterCase { none, lower, upper, title };

LetterCase letter_case(char32_t character);

/// Appends the uppercase letter or, with LetterCase::title, the titlecase letter of `character`,
/// which may be several characters.
void append_uppercase(std::string& text, char32_t character,
                      LetterCase letter_case = LetterCase::upper);

enum class NormalForm { nfd, nfkd, nfc, nfkc };

/// Returns `text`, which must be valid UTF-8, in a normal form.
std::string normalized(std::string_view text, NormalForm form);

/// Returns true if a grapheme cluster ends between two characters. `state` is 0 at the first call.
bool is_grapheme_break(char32_t before, char32_t after, int32_t& state);

/// Returns the character itself or, if it is newer than Oniguruma's tables, an older character of
/// the same category and with the same length in UTF-8.
char32_t known_to_regex(char32_t character);

}  // namespace attend::tokenizers
