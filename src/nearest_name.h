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

/// "; did you mean 'NAME'?", to end a message with, if one of the names is near enough to guess
/// that it was meant; empty if none is.
///
///     did_you_mean("--layer", {"--num-layers", "--num-heads"}) == "; did you mean '--num-layers'?"
inline std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& names) {
  constexpr std::size_t kFarthest = 3;
  const auto nearest =
      std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
        return edit_distance(wrong, a) < edit_distance(wrong, b);
      });
  if (nearest == names.end()) return {};
  const auto distance = edit_distance(wrong, *nearest);
  if (distance > kFarthest || distance >= wrong.size()) return {};
  return "; did you mean '" + *nearest + "'?";
}

}  // namespace attend
