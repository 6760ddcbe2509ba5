#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace attend {

/// Returns the Levenshtein distance of two words.
inline std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t substitution = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitution, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// Returns the edit distance of two names, or a smaller number if the last word of `unknown` is
/// similar to a word of `name`. Words are separated by '-', '_' or '.'. If the last word of
/// `unknown` has at least 3 letters and an edit distance d <= 1 from a word of `name`, the result
/// is at most d + 1. Example: "--layers" has a distance of 1 from "--num-layers".
inline std::size_t name_distance(std::string_view unknown, std::string_view name) {
  constexpr const char* kSeparators = "-_.";
  auto distance = edit_distance(unknown, name);
  const auto last_word = unknown.substr(unknown.find_last_of(kSeparators) + 1);
  if (last_word.size() < 3) return distance;
  while (!name.empty()) {
    const auto end = std::min(name.find_first_of(kSeparators), name.size());
    const auto word_distance = edit_distance(last_word, name.substr(0, end));
    if (word_distance <= 1) distance = std::min(distance, word_distance + 1);
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return distance;
}

/// Returns "; did you mean 'NAME'?", where NAME is the name in `names` with the smallest
/// `name_distance` from `unknown`. Returns an empty string if `names` is empty, if this distance is
/// greater than 3, or if it is not smaller than the length of `unknown`.
///
///     did_you_mean("--lrr", {"--lr", "--seed"}) == "; did you mean '--lr'?"
inline std::string did_you_mean(std::string_view unknown, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxDistance = 3;
  const auto nearest =
      std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
        return name_distance(unknown, a) < name_distance(unknown, b);
      });
  if (nearest == names.end()) return {};
  const auto distance = name_distance(unknown, *nearest);
  if (distance > kMaxDistance || distance >= unknown.size()) return {};
  return "; did you mean '" + *nearest + "'?";
}

}  // namespace attend
