#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace attend {

/// Structure of nested inputs or outputs, like `torch.utils._pytree.TreeSpec` in Python.
///
///     TreeSpec{.kind = TreeSpec::Kind::dict, .keys = {"logits"}, .children = {TreeSpec()}}
struct TreeSpec {
  /// A tensor, None, or a nested value.
  enum class Kind {
    tensor,  ///< a tensor
    none,    ///< None
    list,    ///< a list
    tuple,   ///< a tuple
    dict     ///< a dictionary with strings as keys
  };

  Kind kind = Kind::tensor;             ///< kind of the value
  std::vector<std::string> keys = {};   ///< of a dict, in the order of the children
  std::vector<TreeSpec> children = {};  ///< elements of a list, tuple or dict

  friend bool operator==(const TreeSpec& one, const TreeSpec& other) = default;
};

/// Types of nested values.
template <typename Value>
struct NestedKind : std::false_type {};
/// An optional value; `kind` is that of std::nullopt.
template <typename Value>
struct NestedKind<std::optional<Value>> : std::true_type {
  static constexpr auto kind = TreeSpec::Kind::none;  ///< kind of the value
};
/// A list.
template <typename Value>
struct NestedKind<std::vector<Value>> : std::true_type {
  static constexpr auto kind = TreeSpec::Kind::list;  ///< kind of the value
};
/// A tuple.
template <typename... Values>
struct NestedKind<std::tuple<Values...>> : std::true_type {
  static constexpr auto kind = TreeSpec::Kind::tuple;  ///< kind of the value
};
/// A tuple of two values.
template <typename First, typename Second>
struct NestedKind<std::pair<First, Second>> : std::true_type {
  static constexpr auto kind = TreeSpec::Kind::tuple;  ///< kind of the value
};
/// A dictionary.
template <typename Value>
struct NestedKind<std::map<std::string, Value>> : std::true_type {
  static constexpr auto kind = TreeSpec::Kind::dict;  ///< kind of the value
};

/// Nested value of tensors: std::optional, std::vector, std::tuple, std::pair or std::map with
/// std::string as key. Their elements are tensors or nested values.
template <typename Value>
concept Nested = NestedKind<Value>::value;

/// Calls `visit` for each tensor in `value`, a tensor or a nested value, and returns the structure.
/// The elements of a std::map are visited in the order of their keys.
///
///     visit_tensors(tokens, [](const auto& tensor) { std::cout << tensor.sizes() << "\n"; });
template <typename Value, typename Visit>
TreeSpec visit_tensors(Value& value, const Visit& visit) {
  using Plain = std::remove_const_t<Value>;
  if constexpr (std::is_same_v<Plain, at::Tensor>) {
    visit(value);
    return {};
  } else {
    static_assert(Nested<Plain>,
                  "expected a tensor, or a std::optional, std::vector, std::tuple, std::pair or "
                  "std::map<std::string, ...> of tensors");
    TreeSpec spec{.kind = NestedKind<Plain>::kind};
    const auto add = [&](auto& child) { spec.children.push_back(visit_tensors(child, visit)); };
    if constexpr (NestedKind<Plain>::kind == TreeSpec::Kind::none) {
      return value ? visit_tensors(*value, visit) : spec;
    } else if constexpr (NestedKind<Plain>::kind == TreeSpec::Kind::list) {
      for (auto& child : value) add(child);
    } else if constexpr (NestedKind<Plain>::kind == TreeSpec::Kind::tuple) {
      std::apply([&](auto&... all) { (add(all), ...); }, value);
    } else {
      for (auto& [key, child] : value) {
        spec.keys.push_back(key);
        add(child);
      }
    }
    return spec;
  }
}

}  // namespace attend
