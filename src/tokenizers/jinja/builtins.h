#pragma once

#include "tokenizers/jinja/value.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attend::jinja {

/// Arguments of a filter, test, method or function.
class Arguments {
 public:
  std::vector<Value> values = {};                            ///< by position
  std::vector<std::pair<std::string, Value>> keywords = {};  ///< by name

  /// Returns an argument by its position or name; null if it is missing.
  const Value* find(std::size_t position, std::string_view name) const;
  /// Returns an argument, or `missing`.
  Value get(std::size_t position, std::string_view name, const Value& missing) const;
  /// Throws InputError if there are fewer or more arguments, or unknown names. An argument with an
  /// empty name is given by position, so that `values` contains it if it is one of the first `min`.
  void check(std::size_t min, const std::vector<std::string_view>& names) const;
};

/// What filters, tests and methods need of the renderer.
struct Calls {
  Budget& budget;
  /// Returns `value.name`, or `value[name]`.
  std::function<Value(const Value& value, const Value& name)> get_item;
};

bool is_filter(std::string_view name);
bool is_test(std::string_view name);

Value apply_filter(std::string_view name, const Value& input, const Arguments& arguments,
                   const Calls& calls);
bool apply_test(std::string_view name, const Value& input, const Arguments& arguments,
                const Calls& calls);
/// True if values of this type have the method.
bool has_method(const Value& self, std::string_view name);
Value call_method(const Value& self, std::string_view name, const Arguments& arguments,
                  const Calls& calls);

}  // namespace attend::jinja
