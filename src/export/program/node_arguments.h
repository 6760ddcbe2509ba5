#pragma once

#include "program/exported_program.h"

#include <c10/util/Exception.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace attend::program {

/// Value of the argument `end` if a slice extends to the end of the dimension.
inline constexpr auto kEnd = std::numeric_limits<int64_t>::max();

/// Returns an argument, or nullptr if the node has no argument of this name and type.
template <typename T>
const T* find_argument(const Node& node, std::string_view name) {
  for (const auto& input : node.inputs) {
    if (input.name == name) return std::get_if<T>(&input.value);
  }
  return nullptr;
}

/// Returns an argument. Throws c10::Error if the node has no argument of this name and type.
template <typename T>
const T& required_argument(const Node& node, std::string_view name) {
  const auto* argument = find_argument<T>(node, name);
  TORCH_INTERNAL_ASSERT(argument != nullptr, node.target, " has no argument ", name);
  return *argument;
}

/// Returns true if an argument is a SymInt or SymFloat, or a list that contains one.
bool has_symbols(const Node& node);

/// Returns the names of the tensors in an argument or output.
std::vector<std::string> names_in(const Argument& argument);

}  // namespace attend::program
