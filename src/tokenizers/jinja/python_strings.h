#pragma once

#include "tokenizers/jinja/value.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Functions of Python's `str`. Texts must be valid UTF-8.
namespace attend::jinja {

enum class Sides { left, right, both };

/// Returns `text.strip(characters)`, on both sides or one. `characters`: null for whitespace.
std::string_view stripped_of(std::string_view text, Sides sides, const std::string* characters);
/// Returns `text.split(separator, limit)` or `text.rsplit(separator, limit)`; limit < 0: none.
std::vector<std::string> split_at(std::string_view text, std::string_view separator, int64_t limit,
                                  bool from_right, Budget& budget);
/// Returns `text.split(None, limit)` or `text.rsplit(None, limit)`.
std::vector<std::string> split_at_space(std::string_view text, int64_t limit, bool from_right,
                                        Budget& budget);
/// Returns `text.splitlines(keep_ends)`.
std::vector<std::string> lines_of(std::string_view text, bool keep_ends, Budget& budget);
/// Returns `text.replace(old, replacement, count)`; count < 0: all.
std::string replaced(std::string_view text, std::string_view old, std::string_view replacement,
                     int64_t count, Budget& budget);
/// Returns `text.count(part)`.
int64_t count_of(std::string_view text, std::string_view part, Budget& budget);
std::string uppercased(std::string_view text);
std::string capitalized(std::string_view text);
/// Returns `text.title()`.
std::string title_of(std::string_view text);
/// Returns `text.isupper()` or `text.islower()`.
bool has_case(std::string_view text, bool upper);

/// True for a character of which `isspace()` is true.
bool is_space(char32_t character);

}  // namespace attend::jinja
