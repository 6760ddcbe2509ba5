#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace attend::train {

/// Returns the number of edits that change one word into the other: insertions, deletions and
/// replacements of a character, and swaps of two adjacent ones (optimal string alignment).
inline std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> table(from.size() + 1,
                                              std::vector<std::size_t>(to.size() + 1));
  for (std::size_t i = 0; i <= from.size(); ++i) {
    for (std::size_t j = 0; j <= to.size(); ++j) {
      auto& distance = table[i][j];
      if (i == 0 || j == 0) {
        distance = i + j;
        continue;
      }
      distance = std::min({table[i - 1][j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1),
                           table[i - 1][j] + 1, table[i][j - 1] + 1});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
        distance = std::min(distance, table[i - 2][j - 2] + 1);
    }
  }
  return table.back().back();
}

}  // namespace attend::train
