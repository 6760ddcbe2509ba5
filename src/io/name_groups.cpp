#include "io/name_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace attend {
namespace {

/// Names that differ only in the numbers of some parts.
struct NameGroup {
  std::vector<std::string> parts;  ///< of the name, between dots: a text or "{0..11}"
  std::size_t size = 1;

  bool operator<(const NameGroup& other) const { return parts < other.parts; }
};

std::vector<std::string> parts_of(const std::string& name) {
  std::vector<std::string> parts(1);
  for (const char c : name) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

/// True for the number of a layer: small, and without leading zeros, which would get lost.
bool is_number(std::string_view part) {
  constexpr std::size_t kMaxDigits = 9;
  return !part.empty() && part.size() <= kMaxDigits && (part == "0" || part.front() != '0') &&
         std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns a number, or several in braces: "{0..11, 14}".
std::string text_of(const std::set<int64_t>& numbers) {
  std::vector<std::string> runs;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto end = std::next(first);
    while (end != numbers.end() && *end == *std::prev(end) + 1) ++end;
    const auto last = *std::prev(end);
    runs.push_back(last == *first       ? fmt::format("{}", last)
                   : last == *first + 1 ? fmt::format("{}, {}", *first, last)
                                        : fmt::format("{}..{}", *first, last));
    first = end;
  }
  const auto text = fmt::format("{}", fmt::join(runs, ", "));
  return numbers.size() == 1 ? text : "{" + text + "}";
}

/// Joins groups that differ only in the number of the part at `position`.
std::vector<NameGroup> joined(std::vector<NameGroup> groups, std::size_t position) {
  std::vector<NameGroup> result;
  std::map<NameGroup, std::set<int64_t>> numbers;  // by group without the number
  for (auto& group : groups) {
    if (position < group.parts.size() && is_number(group.parts[position])) {
      const auto number = std::stoll(std::exchange(group.parts[position], ""));
      numbers[std::move(group)].insert(number);
    } else {
      result.push_back(std::move(group));
    }
  }
  for (const auto& [group, set] : numbers) {
    result.push_back({group.parts, group.size * set.size()});
    result.back().parts[position] = text_of(set);
  }
  return result;
}

}  // namespace

std::vector<std::string> group_names(const std::vector<std::string>& names) {
  std::vector<NameGroup> groups;
  std::size_t longest = 0;
  for (const auto& name : names) {
    groups.push_back({parts_of(name)});
    longest = std::max(longest, groups.back().parts.size());
  }
  // Experts are numbered inside of layers, so the last numbers are joined first.
  for (auto position = longest; position > 0; --position)
    groups = joined(std::move(groups), position - 1);
  std::vector<std::string> texts;
  for (const auto& [parts, size] : groups) {
    texts.push_back(fmt::format("{}", fmt::join(parts, ".")));
    if (size > 1) texts.back() += fmt::format(" ({} names)", size);
  }
  std::ranges::sort(texts);
  return texts;
}

}  // namespace attend
