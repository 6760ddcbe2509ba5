#pragma once

#include "attend/input_error.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace attend::program {

/// Maps the names in a graph to slots: indices 0, 1, ... of the values at run time. Throws
/// InputError if a name is defined more than once, undefined, or used before its definition.
class ValueTable {
 public:
  /// Adds a name and returns its slot.
  std::size_t define(const std::string& name) {
    if (!slots_.emplace(name, slots_.size()).second) {
      throw InputError(fmt::format("'{}' is defined more than once", name));
    }
    return slots_.size() - 1;
  }
  std::size_t find(const std::string& name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end())
      throw InputError(fmt::format("'{}' is undefined or used before its definition", name));
    return found->second;
  }
  std::size_t size() const { return slots_.size(); }
  /// Returns the names, indexed by slot.
  std::vector<std::string> names() const {
    std::vector<std::string> names(slots_.size());
    for (const auto& [name, slot] : slots_) names[slot] = name;
    return names;
  }

 private:
  std::unordered_map<std::string, std::size_t> slots_;
};

}  // namespace attend::program
