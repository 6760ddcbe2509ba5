#include "export/trial_sizes.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>

namespace attend {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

constexpr auto kNoMax = std::numeric_limits<int64_t>::max();

TrialSizes sizes_to_try(int64_t min, int64_t max, int64_t example,
                        const std::set<int64_t>& constants = {}) {
  return trial_sizes({.name = "length", .min = min, .max = max}, example, constants, /*seed=*/1);
}

TEST(TrialSizes, GrowFromTheExampleToTheMaximum) {
  EXPECT_THAT(sizes_to_try(1, 100, 3).growing, ElementsAre(6, 24, 96, 100));
  EXPECT_THAT(sizes_to_try(1, 96, 3).growing, ElementsAre(6, 24, 96));
  EXPECT_THAT(sizes_to_try(1, 5, 4).growing, ElementsAre(5));
  EXPECT_THAT(sizes_to_try(1, 4, 4).growing, IsEmpty());
}

TEST(TrialSizes, GrowToAtLeast4097WithoutAMaximum) {
  EXPECT_THAT(sizes_to_try(1, kNoMax, 1).growing,
              ElementsAre(2, 8, 32, 128, 512, 513, 1025, 2049, 4097));
  EXPECT_THAT(sizes_to_try(1, kNoMax, 3).growing,
              ElementsAre(6, 24, 96, 384, 513, 1025, 2049, 4097));
  EXPECT_THAT(sizes_to_try(1, kNoMax, 200).growing, ElementsAre(400, 800, 1025, 2049, 4097));
  EXPECT_THAT(sizes_to_try(1, kNoMax, 5000).growing, ElementsAre(10000, 20000));
}

TEST(TrialSizes, AreAroundTheConstants) {
  EXPECT_THAT(sizes_to_try(1, kNoMax, 2, {10}).around_constants,
              ElementsAre(9, 10, 11, 12, 13, 15, 18));
  EXPECT_THAT(sizes_to_try(1, kNoMax, 2, {0, 1000}).around_constants,
              ElementsAre(1, 2, 3, 5, 8, 999, 1000, 1001, 1002, 1003, 1005, 1008));
  EXPECT_THAT(sizes_to_try(1, kNoMax, 2).around_constants, IsEmpty());
}

TEST(TrialSizes, AreInTheRange) {
  constexpr int64_t kHigh = 100000;
  for (const auto& [min, max, example, last] :
       std::vector<std::array<int64_t, 4>>{{1, kNoMax, 1, 4097},
                                           {10, 12, 11, 12},
                                           {5, 1000, 5, 1000},
                                           {1000, 1000000, 2000, 1000000},
                                           {kHigh, kNoMax, kHigh, 4 * kHigh},
                                           {kHigh, kHigh + 1, kHigh, kHigh + 1}}) {
    SCOPED_TRACE(testing::Message() << min << " to " << max);
    const auto [growing, around, others] = sizes_to_try(min, max, example, {1, 11, 12, kHigh});
    EXPECT_THAT(growing, Each(AllOf(Ge(example + 1), Le(last))));
    EXPECT_EQ(growing.back(), last);
    EXPECT_THAT(around, Each(AllOf(Ge(min), Le(max))));
    EXPECT_THAT(others, Each(AllOf(Ge(min), Le(last))));
  }
}

TEST(TrialSizes, IncludeAllSizesOfADimensionWithFewSizes) {
  const auto few = sizes_to_try(3, 66, 10).others;
  for (int64_t size = 3; size <= 66; ++size) EXPECT_THAT(few, Contains(size));
  EXPECT_THAT(sizes_to_try(3, 67, 10).others, SizeIs(Le(10)));
}

TEST(TrialSizes, AreTheSameInEachCallAndIncludeSmallAndLargeSizes) {
  const auto others = sizes_to_try(1, 1000000, 10).others;
  EXPECT_EQ(others, sizes_to_try(1, 1000000, 10).others);
  EXPECT_THAT(others, Contains(Le(1000)));
  EXPECT_THAT(others, Contains(Ge(1001)));
  EXPECT_THAT(sizes_to_try(100000, kNoMax, 200000).others, Each(Ge(100001)));
}

}  // namespace
}  // namespace attend
