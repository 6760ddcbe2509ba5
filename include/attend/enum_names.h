#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace attend {

/// The names of an enum's values as they stand in recipes, flags and printed modules.
/// Specialise it with `static constexpr std::array names` whose order is that of the enumerators.
template <typename E>
struct EnumNames;

/// The name of an enumerator. Example: `to_string(Activation::relu) == "relu"`.
template <typename E>
requires requires {
  EnumNames<E>::names;
}
constexpr std::string_view to_string(E value) {
  return EnumNames<E>::names[static_cast<std::size_t>(value)];
}

/// The enumerator of that name, or nothing. Example: `from_string<Activation>("relu")`.
template <typename E>
constexpr std::optional<E> from_string(std::string_view name) {
  const auto& names = EnumNames<E>::names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

}  // namespace attend
