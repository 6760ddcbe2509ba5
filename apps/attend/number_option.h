#pragma once

#include "parse_number.h"

#include <CLI/App.hpp>

#include <cmath>
#include <type_traits>

namespace attend::app {

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

}  // namespace attend::app
