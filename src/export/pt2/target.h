#pragma once

#include <string>
#include <string_view>

namespace attend::pt2 {

/// The parts of an operator's target, torch.ops.NAMESPACE.NAME.OVERLOAD.
struct Target {
  std::string space;
  std::string name;
  std::string overload;  ///< "default" where the dispatcher has none

  /// As the dispatcher has it: aten::add.
  std::string qualified_name() const { return space + "::" + name; }
  std::string dispatcher_overload() const { return overload == "default" ? "" : overload; }
};

constexpr std::string_view kOperators = "torch.ops.";

/// Whether a target is an operator's; others are functions over numbers, as _operator.mul.
inline bool is_operator(std::string_view target) {
  return target.starts_with(kOperators);
}

/// The parts of an operator's target; all empty if it has not three.
inline Target parse_target(std::string_view target) {
  const auto rest = target.substr(kOperators.size());
  const auto first = rest.find('.');
  const auto last = rest.rfind('.');
  if (first == std::string_view::npos || first == last) return {};
  return {.space = std::string(rest.substr(0, first)),
          .name = std::string(rest.substr(first + 1, last - first - 1)),
          .overload = std::string(rest.substr(last + 1))};
}

/// The target of an operator that the dispatcher calls `qualified_name` and `overload`.
inline std::string target_of(std::string qualified_name, const std::string& overload) {
  const auto colons = qualified_name.find("::");
  qualified_name.replace(colons, 2, ".");
  return std::string(kOperators) + qualified_name + "." + (overload.empty() ? "default" : overload);
}

}  // namespace attend::pt2
