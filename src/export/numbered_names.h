#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace attend {

/// Returns `names`, extended to `count` elements. Each added name is `prefix` and the index of the
/// element, such as input1.
inline std::vector<std::string> numbered_names(std::vector<std::string> names, std::size_t count,
                                               const char* prefix) {
  for (auto i = names.size(); i < count; ++i) names.push_back(fmt::format("{}{}", prefix, i));
  return names;
}

}  // namespace attend
