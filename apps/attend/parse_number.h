#pragma once

#include <CLI/Error.hpp>
#include <fmt/format.h>

#include <charconv>
#include <string>

namespace attend::app {

/// A number as people write it: decimal, all of the text, within the type. (CLI11's own reading
/// takes 010 for 8, clamps what is too large, and reads nothing as 0.)
/// Throws CLI::ValidationError, naming flag and text.
template <typename Number>
Number parse_number(const std::string& flag, const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    if (std::is_unsigned_v<Number> && text.starts_with('-')) {
      throw CLI::ValidationError(flag, fmt::format("must not be negative, found {}", text));
    }
    constexpr const char* kKind = std::is_integral_v<Number> ? "a whole number" : "a number";
    throw CLI::ValidationError(flag, fmt::format("expected {}, found '{}'", kKind, text));
  }
  return value;
}

}  // namespace attend::app
