#include "attend/train/nearest_name.h"

#include "train/edit_distance.h"
#include "train/name_synonyms.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>

namespace attend::train {
namespace {

/// Returns a name in lower case, with hyphens, and without dashes, brackets and tables: "max-steps"
/// for "--max_steps" and "training.max_steps".
std::string plain_name(std::string_view name) {
  auto plain = std::string(name.substr(name.find_last_of('.') + 1));
  plain.erase(0, std::min(plain.find_first_not_of("-["), plain.size()));
  plain.erase(plain.find_last_not_of(']') + 1);
  for (auto& c : plain) {
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

std::vector<std::string_view> words_of(std::string_view plain_name) {
  std::vector<std::string_view> words;
  while (!plain_name.empty()) {
    const auto end = std::min(plain_name.find('-'), plain_name.size());
    if (end > 0) words.push_back(plain_name.substr(0, end));
    plain_name.remove_prefix(std::min(end + 1, plain_name.size()));
  }
  return words;
}

/// Returns how many words the longer one of two plain names has in addition to those of the other:
/// 1 for "layers" and "num-layers". A word may have a typing error for every 5 letters. Empty if
/// the other name has more words that differ, or a word of less than 3 letters.
std::optional<std::size_t> additional_words(std::string_view a, std::string_view b) {
  constexpr std::size_t kMinWord = 3;
  auto fewer = words_of(a);
  auto more = words_of(b);
  if (fewer.size() > more.size()) std::swap(fewer, more);
  const auto is_in_more = [&](std::string_view word) {
    return word.size() >= kMinWord && std::ranges::any_of(more, [&](std::string_view other) {
             return edit_distance(word, other) <= word.size() / 5;
           });
  };
  if (fewer.empty() || !std::ranges::all_of(fewer, is_in_more)) return std::nullopt;
  return more.size() - fewer.size();
}

}  // namespace

std::string nearest_name(std::string_view unknown, const std::vector<std::string>& names) {
  constexpr std::size_t kMaxAdditional = 2;
  constexpr std::size_t kMaxDistance = 3;
  constexpr std::size_t kLongestName = 64;
  const auto wanted = plain_name(unknown);
  if (wanted.empty() || wanted.size() > kLongestName) return {};
  const auto with_plain_name = [&](std::string_view plain) {
    const auto found =
        std::ranges::find_if(names, [&](const auto& name) { return plain_name(name) == plain; });
    return found == names.end() ? std::string() : *found;
  };
  if (auto same = with_plain_name(wanted); !same.empty()) return same;
  for (const auto& [synonym, name] : kNameSynonyms) {
    if (synonym != wanted) continue;
    if (auto found = with_plain_name(name); !found.empty()) return found;
  }

  auto fewest = kMaxAdditional + 1;
  std::vector<std::string> similar;
  for (const auto& name : names) {
    const auto additional = additional_words(wanted, plain_name(name));
    if (!additional || *additional > fewest) continue;
    if (*additional < fewest) similar.clear();
    fewest = *additional;
    similar.push_back(name);
  }
  if (similar.size() == 1 && fewest <= kMaxAdditional) return similar.front();

  std::string nearest;
  auto limit =
      std::min({std::max<std::size_t>(wanted.size() / 3, 1), kMaxDistance, wanted.size() - 1});
  for (const auto& name : names) {
    const auto distance = edit_distance(wanted, plain_name(name));
    if (distance > limit || (distance == limit && !nearest.empty())) continue;
    limit = distance;
    nearest = name;
  }
  return nearest;
}

std::string did_you_mean(std::string_view unknown, const std::vector<std::string>& names) {
  const auto nearest = nearest_name(unknown, names);
  return nearest.empty() ? std::string() : "; did you mean '" + nearest + "'?";
}

}  // namespace attend::train
