#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// How many characters must be inserted, deleted or replaced to turn one word into the other.
inline std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The name that somebody who wrote `wrong` most likely meant. `names` must not be empty.
///
///     nearest_name("--layer", {"--layers", "--heads"}) == "--layers";
inline std::string nearest_name(std::string_view wrong, const std::vector<std::string>& names) {
  return *std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return edit_distance(wrong, a) < edit_distance(wrong, b);
  });
}

}  // namespace attend
