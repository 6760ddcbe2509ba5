#include "io/name_groups.h"

#include "support/seed.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <regex>
#include <set>

namespace attend {
namespace {

using testing::ElementsAre;

TEST(GroupNames, JoinsNumbersOfAllCombinations) {
  std::vector<std::string> names{"head.weight"};
  for (int layer = 0; layer < 12; ++layer) {
    names.push_back(fmt::format("blocks.{}.norm1.weight", layer));
    for (const int expert : {0, 1, 5})
      names.push_back(fmt::format("blocks.{}.experts.{}.up", layer, expert));
  }
  EXPECT_THAT(group_names(names),
              ElementsAre("blocks.{0..11}.experts.{0, 1, 5}.up (36 names)",
                          "blocks.{0..11}.norm1.weight (12 names)", "head.weight"));
}

TEST(GroupNames, OnlyNumbersOfLayersAreJoined) {
  EXPECT_THAT(
      group_names({"a.01", "a.1", "conv1.w", "conv2.w", "x..1", "99999999999", "99999999998"}),
      ElementsAre("99999999998", "99999999999", "a.01", "a.1", "conv1.w", "conv2.w", "x..1"));
  EXPECT_THAT(group_names({}), ElementsAre());
}

/// Returns the names of a group: the inverse of `group_names`.
std::set<std::string> names_of(std::string group) {
  group = group.substr(0, group.find(" ("));
  std::smatch braces;
  if (!std::regex_search(group, braces, std::regex(R"(\{([^}]*)\})"))) return {group};
  std::set<std::string> names;
  const std::string list = braces[1];
  const std::regex run(R"((\d+)(\.\.(\d+))?)");
  for (std::sregex_iterator each(list.begin(), list.end(), run), end; each != end; ++each) {
    const auto first = std::stoi((*each)[1]);
    const auto last = (*each)[3].matched ? std::stoi((*each)[3]) : first;
    for (int number = first; number <= last; ++number) {
      names.merge(
          names_of(fmt::format("{}{}{}", braces.prefix().str(), number, braces.suffix().str())));
    }
  }
  return names;
}

TEST(GroupNames, ContainsExactlyTheNames) {
  seed_afresh();
  for (int i = 0; i < 100; ++i) {
    std::set<std::string> names;
    const auto count = draw(1, 40);
    while (static_cast<int64_t>(names.size()) < count) {
      names.insert(fmt::format("{}.{}.{}.{}", draw(0, 1) == 0 ? "a" : "b", draw(0, 3), draw(0, 3),
                               draw(0, 2) == 0 ? "w" : std::to_string(draw(0, 3))));
    }
    std::set<std::string> found;
    std::size_t size = 0;
    for (const auto& group : group_names({names.begin(), names.end()})) {
      const auto expanded = names_of(group);
      size += expanded.size();  // no name is in two groups
      found.insert(expanded.begin(), expanded.end());
      if (expanded.size() > 1) {
        EXPECT_TRUE(group.ends_with(fmt::format(" ({} names)", expanded.size()))) << group;
      }
    }
    EXPECT_EQ(found, names);
    EXPECT_EQ(size, names.size());
  }
}

}  // namespace
}  // namespace attend
