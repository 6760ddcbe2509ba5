#pragma once

#include "attend/input_error.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace attend::program {

/// The places of names; each is given once, before it is used.
class Places {
 public:
  std::size_t give(const std::string& name) {
    if (!places_.emplace(name, places_.size()).second) {
      throw InputError(fmt::format("'{}' is given twice", name));
    }
    return places_.size() - 1;
  }
  std::size_t find(const std::string& name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) throw InputError(fmt::format("'{}' is not given before", name));
    return found->second;
  }
  std::size_t size() const { return places_.size(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names(places_.size());
    for (const auto& [name, place] : places_) names[place] = name;
    return names;
  }

 private:
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace attend::program
