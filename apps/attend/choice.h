#pragma once

#include "attend/enum_names.h"

#include <CLI/Error.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

namespace attend::app {

/// The names of an enum's values, separated by "|", for help texts and messages: "best|last".
template <typename Enum>
std::string choices() {
  return fmt::format("{}", fmt::join(EnumNames<Enum>::names, "|"));
}

/// Returns the enum value with the name `text`. Throws CLI::ValidationError with `flag` and `text`
/// if no value has this name.
template <typename Enum>
Enum parse_choice(const std::string& flag, const std::string& text) {
  if (const auto value = from_string<Enum>(text)) return *value;
  throw CLI::ValidationError(flag, fmt::format("expected {}, found '{}'", choices<Enum>(), text));
}

}  // namespace attend::app
