#include "report/thinned.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

namespace attend::app {
namespace {

using testing::ElementsAre;

/// Returns the rows that are kept of `count` rows 0, 1, ...; `best` has the lowest loss.
std::vector<int> kept(int count, std::size_t max, int best) {
  Thinned<int> rows(max);
  for (int i = 0; i < count; ++i) rows.add(i, i == best ? 0.0 : 1.0);
  EXPECT_EQ(rows.count(), static_cast<std::size_t>(count));
  return rows.rows();
}

TEST(Thinned, KeepsFewRows) {
  EXPECT_THAT(kept(5, 5, 1), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(kept(0, 5, 1), ElementsAre());
}

TEST(Thinned, KeepsTheBestAndTheLastOfManyRows) {
  EXPECT_THAT(kept(6, 5, 0), ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(kept(20, 5, 7), ElementsAre(0, 7, 8, 16, 19));
  for (int count = 3; count < 300; ++count) {
    for (const int best : {0, 1, count / 2, count - 1}) {
      const auto rows = kept(count, 10, best);
      EXPECT_LE(rows.size(), 10U) << count;
      EXPECT_GE(rows.size(), std::min<std::size_t>(static_cast<std::size_t>(count), 5)) << count;
      EXPECT_THAT(rows, testing::IsSupersetOf(std::set{0, best, count - 1})) << count;
      EXPECT_TRUE(std::ranges::is_sorted(rows));
    }
  }
}

TEST(Thinned, TheFirstOfEqualLossesIsTheBest) {
  Thinned<int> rows(3);
  rows.add(1);
  EXPECT_EQ(rows.best(), nullptr);
  for (const int row : {2, 3, 4}) rows.add(row, 0.5);
  ASSERT_NE(rows.best(), nullptr);
  EXPECT_EQ(*rows.best(), 2);
}

}  // namespace
}  // namespace attend::app
