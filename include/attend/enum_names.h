#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace attend {

/// Names of the enumerators of `E`, as used in training recipes, command-line flags and printed
/// modules. A specialization has a member `static constexpr std::array<std::string_view, N> names`
/// in the order of the enumerators.
template <typename E>
struct EnumNames;

/// Returns the name of an enumerator. Example: `to_string(Activation::relu) == "relu"`.
template <typename E>
requires requires {
  EnumNames<E>::names;
}
constexpr std::string_view to_string(E value) {
  return EnumNames<E>::names[static_cast<std::size_t>(value)];
}

/// Returns the enumerator with the given name, or std::nullopt if there is none. Example:
/// `from_string<Activation>("relu")`.
template <typename E>
constexpr std::optional<E> from_string(std::string_view name) {
  const auto& names = EnumNames<E>::names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace attend
