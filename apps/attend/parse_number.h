#pragma once

#include <CLI/Error.hpp>
#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

namespace attend::app {

/// Parses the whole `text` as a decimal number. `zero` is a word that means 0, for example "auto";
/// if `zero` is empty, there is no such word. Throws CLI::ValidationError with `flag` and `text` if
/// `text` is neither a valid number nor this word.
///
/// CLI11's own parser is not used: it reads 010 as octal, clamps on overflow, and reads an empty
/// text as 0.
template <typename Number>
Number parse_number(const std::string& flag, const std::string& text, std::string_view zero = {}) {
  Number value{};
  if (!zero.empty() && text == zero) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    if (std::is_unsigned_v<Number> && text.starts_with('-')) {
      throw CLI::ValidationError(flag, fmt::format("must not be negative, found {}", text));
    }
    constexpr const char* kKind = std::is_integral_v<Number> ? "an integer" : "a number";
    throw CLI::ValidationError(flag, fmt::format("expected {}{}{}, found '{}'", kKind,
                                                 zero.empty() ? "" : " or ", zero, text));
  }
  return value;
}

}  // namespace attend::app
