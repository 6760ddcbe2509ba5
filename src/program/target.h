#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace attend::program {

/// Parts of an operator's target, torch.ops.NAMESPACE.NAME.OVERLOAD.
struct Target {
  std::string space;
  std::string name;
  std::string overload;  ///< "default" for the empty overload name

  /// Returns the name in the dispatcher, such as "aten::add".
  std::string qualified_name() const { return space + "::" + name; }
  std::string dispatcher_overload() const { return overload == "default" ? "" : overload; }
};

constexpr std::string_view kOperators = "torch.ops.";
constexpr std::string_view kHigherOrderOperators = "torch.ops.higher_order.";

/// Returns true for operators that have graphs as arguments, such as torch.ops.higher_order.cond.
inline bool is_higher_order(std::string_view target) {
  return target.starts_with(kHigherOrderOperators);
}

/// Returns true for operators of the dispatcher; false for higher-order operators, and for
/// functions on SymInts, such as _operator.mul.
inline bool is_operator(std::string_view target) {
  return target.starts_with(kOperators) && !is_higher_order(target);
}

/// Parses the target of an operator. If a part is missing, all strings of the result are empty.
inline Target parse_target(std::string_view target) {
  const auto rest = target.substr(kOperators.size());
  const auto first = rest.find('.');
  const auto last = rest.rfind('.');
  if (first == std::string_view::npos || first == last) return {};
  return {.space = std::string(rest.substr(0, first)),
          .name = std::string(rest.substr(first + 1, last - first - 1)),
          .overload = std::string(rest.substr(last + 1))};
}

/// Returns "add.Tensor" for "torch.ops.aten.add.Tensor". Returns an empty string for targets
/// outside of the namespace aten.
inline std::string key_of(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.aten.";
  return std::string(target.starts_with(kPrefix) ? target.substr(kPrefix.size()) : "");
}

/// Returns the target of an operator. The arguments are the operator's name and overload in the
/// dispatcher, such as "aten::add" and "Tensor" for the target "torch.ops.aten.add.Tensor".
inline std::string target_of(std::string_view qualified_name, std::string_view overload) {
  const auto colons = qualified_name.find("::");
  return fmt::format("{}{}.{}.{}", kOperators, qualified_name.substr(0, colons),
                     qualified_name.substr(colons + 2), overload.empty() ? "default" : overload);
}

}  // namespace attend::program
