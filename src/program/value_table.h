#pragma once

#include "attend/input_error.h"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace attend::program {

using Values = std::vector<c10::IValue>;  // values at run time, indexed by slot

/// Source of a value at run time: a constant, a slot, or a function of slots.
struct Source {
  c10::IValue constant = {};            ///< the value if there are no slots
  std::vector<std::size_t> slots = {};  ///< slots that are read
  /// Computes the value from the slots. Null for the value of a single slot.
  std::function<c10::IValue(const Values&)> compute = {};

  c10::IValue read(const Values& values) const {
    if (compute) return compute(values);
    return slots.empty() ? constant : values[slots.front()];
  }
};

/// Maps the names in a graph to sources: constants, or slots 0, 1, ... of the values at run time.
/// Throws InputError if a name is defined more than once, undefined, or used before its definition.
class ValueTable {
 public:
  /// Adds a name and returns its slot.
  std::size_t define(const std::string& name) {
    add(name, {.slots = {names_.size()}});
    names_.push_back(name);
    return names_.size() - 1;
  }
  /// Adds the name of a constant.
  void define(const std::string& name, const c10::IValue& constant) {
    add(name, {.constant = constant});
  }
  const Source& find(const std::string& name) const {
    const auto found = sources_.find(name);
    if (found == sources_.end())
      throw InputError(fmt::format("'{}' is undefined or used before its definition", name));
    return found->second;
  }
  /// Returns the names, indexed by slot.
  const std::vector<std::string>& names() const { return names_; }

 private:
  void add(const std::string& name, Source source) {
    if (!sources_.emplace(name, std::move(source)).second) {
      throw InputError(fmt::format("'{}' is defined more than once", name));
    }
  }

  std::unordered_map<std::string, Source> sources_;
  std::vector<std::string> names_;
};

}  // namespace attend::program
