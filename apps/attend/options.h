// Options of commands: parsing of values, and refusal of options without effect.
#pragma once

#include "attend/enum_names.h"
#include "attend/input_error.h"

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

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

/// A range check for a numeric option.
struct Requirement {
  const char* text;       ///< text after "must" in the message: "not be negative"
  bool (*holds)(double);  ///< returns true for a valid number
};

inline constexpr Requirement kPositive{"be positive", [](double x) { return x > 0; }};
inline constexpr Requirement kNotNegative{"not be negative", [](double x) { return x >= 0; }};
inline constexpr Requirement kAtLeastTwo{"be at least 2", [](double x) { return x >= 2; }};
inline constexpr Requirement kThreads{"be between 0 and 1024",
                                      [](double x) { return x >= 0 && x <= 1024; }};
inline constexpr Requirement kBeams{"be between 1 and 1024",
                                    [](double x) { return x >= 1 && x <= 1024; }};
inline constexpr Requirement kFraction{"be between 0 and 1",
                                       [](double x) { return x >= 0 && x <= 1; }};

/// Adds an option for a finite number. Parsing writes the number to `target`. The help shows
/// `unit`, e.g. "TOKENS", and the current value of `target` as the default.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& flag, Number& target,
                        const Requirement& requirement, const char* help,
                        const char* unit = std::is_integral_v<Number> ? "INT" : "FLOAT") {
  const auto parse = [flag, &target, requirement](const std::string& text) {
    target = parse_number<Number>(flag, text);
    const auto value = static_cast<double>(target);
    if (!std::isfinite(value)) {
      throw CLI::ValidationError(flag, fmt::format("expected a finite number, found '{}'", text));
    }
    if (!requirement.holds(value)) {
      throw CLI::ValidationError(flag, fmt::format("must {}, found {}", requirement.text, text));
    }
  };
  return command.add_option_function<std::string>(flag, parse, help)
      ->type_name(unit)
      ->default_str(fmt::format("{}", target));
}

/// Throws InputError for an option without effect. `where` completes the sentence "--out has no
/// effect ...", for example "beside --print-config". `alternative` is what the user can do instead
/// of removing the option, if anything.
[[noreturn]] inline void refuse_without_effect(const std::string& option, const std::string& where,
                                               const std::string& alternative = "") {
  throw InputError(fmt::format("{0} has no effect {1}: remove {0} from the command{2}", option,
                               where, alternative.empty() ? "" : ", or " + alternative));
}

}  // namespace attend::app
