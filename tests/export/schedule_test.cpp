#include "export/schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string>

namespace attend {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Le;
using testing::Not;
using testing::SizeIs;

constexpr auto kNoMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kHigh = 100000;

/// Returns the dimensions d0, d1, ..., one for each element of `ranges`. An element contains the
/// minimum, the maximum and the example's size.
std::vector<ScheduledDimension> dimensions_of(const std::vector<std::array<int64_t, 3>>& ranges,
                                              const std::set<int64_t>& constants = {}) {
  std::vector<torch::Tensor> example;
  std::vector<DynamicDimension> dynamic;
  for (const auto& [min, max, size] : ranges) {
    dynamic.push_back({.input = example.size(),
                       .dimension = 1,
                       .name = "d" + std::to_string(example.size()),
                       .min = min,
                       .max = max});
    example.push_back(torch::empty({0, size}));
  }
  return scheduled_dimensions(example, dynamic, constants, /*seed=*/1);
}

ScheduledDimension dimension_of(int64_t min, int64_t max, int64_t example,
                                const std::set<int64_t>& constants = {}) {
  return dimensions_of({{min, max, example}}, constants).at(0);
}

/// Returns the sizes of the dimensions d0, d1, ...
SizesByName sizes(const std::vector<int64_t>& numbers) {
  SizesByName all;
  for (const auto number : numbers) all["d" + std::to_string(all.size())] = number;
  return all;
}

TEST(ScheduledDimension, HasConsecutiveSizesWithout0And1) {
  EXPECT_THAT(dimension_of(0, 5, 4).consecutive, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(dimension_of(0, 2, 1).consecutive, ElementsAre(0, 1, 2));
  EXPECT_EQ(dimension_of(3, kNoMax, 4).consecutive.back(), 19);
}

TEST(ScheduledDimension, GrowsFromAnEmptyExample) {
  EXPECT_THAT(dimension_of(0, 32, 0).growing, ElementsAre(2, 8, 32));
}

TEST(ScheduledDimension, HasASymbolIfTheSizeIsNotConstant) {
  const auto dimensions = dimensions_of({{1, kNoMax, 7}, {4, 4, 4}, {3, 9, 5}});
  ASSERT_THAT(dimensions, SizeIs(3));
  EXPECT_EQ(dimensions[0].name, "d0");
  EXPECT_EQ(dimensions[0].symbol, "s0");
  EXPECT_EQ(dimensions[0].range().min, 1);
  EXPECT_EQ(dimensions[0].range().max, std::nullopt);
  EXPECT_EQ(dimensions[0].example, 7);
  EXPECT_EQ(dimensions[1].symbol, "");
  EXPECT_EQ(dimensions[2].symbol, "s1");
  EXPECT_EQ(dimensions[2].range().max, 9);
}

TEST(ScheduledDimension, IsOneForEachName) {
  const auto dimensions =
      scheduled_dimensions({torch::empty({3, 3})},
                           {{.dimension = 0, .name = "n"}, {.dimension = 1, .name = "n"}}, {}, 1);
  EXPECT_THAT(dimensions, SizeIs(1));
}

TEST(ScheduledDimension, GrowsFromTheExampleToTheMaximum) {
  EXPECT_THAT(dimension_of(1, 100, 3).growing, ElementsAre(6, 24, 96, 100));
  EXPECT_THAT(dimension_of(1, 96, 3).growing, ElementsAre(6, 24, 96));
  EXPECT_THAT(dimension_of(1, 5, 4).growing, ElementsAre(5));
  EXPECT_THAT(dimension_of(1, 4, 4).growing, IsEmpty());
}

TEST(ScheduledDimension, GrowsToAtLeast4097WithoutAMaximum) {
  EXPECT_THAT(dimension_of(1, kNoMax, 1).growing,
              ElementsAre(2, 8, 32, 128, 512, 513, 1025, 2049, 4097));
  EXPECT_THAT(dimension_of(1, kNoMax, 3).growing,
              ElementsAre(6, 24, 96, 384, 513, 1025, 2049, 4097));
  EXPECT_THAT(dimension_of(1, kNoMax, 200).growing, ElementsAre(400, 800, 1025, 2049, 4097));
  EXPECT_THAT(dimension_of(1, kNoMax, 5000).growing, ElementsAre(10000, 20000));
}

TEST(ScheduledDimension, HasSizesAroundTheConstants) {
  EXPECT_THAT(dimension_of(1, kNoMax, 2, {10}).around_constants,
              ElementsAre(9, 10, 11, 12, 13, 15, 18));
  EXPECT_THAT(dimension_of(1, kNoMax, 2, {0, 1000}).around_constants,
              ElementsAre(1, 2, 3, 5, 8, 999, 1000, 1001, 1002, 1003, 1005, 1008));
  EXPECT_THAT(dimension_of(1, kNoMax, 2).around_constants, IsEmpty());
}

TEST(ScheduledDimension, HasSizesInTheRange) {
  for (const auto& [min, max, example, last] :
       std::vector<std::array<int64_t, 4>>{{1, kNoMax, 1, 4097},
                                           {10, 12, 11, 12},
                                           {5, 1000, 5, 1000},
                                           {1000, 1000000, 2000, 1000000},
                                           {kHigh, kNoMax, kHigh, 4 * kHigh},
                                           {kHigh, kHigh + 1, kHigh, kHigh + 1}}) {
    SCOPED_TRACE(testing::Message() << min << " to " << max);
    const auto dimension = dimension_of(min, max, example, {1, 11, 12, kHigh});
    EXPECT_THAT(dimension.growing, Each(AllOf(Ge(example + 1), Le(last))));
    EXPECT_EQ(dimension.growing.back(), last);
    EXPECT_THAT(dimension.around_constants, Each(AllOf(Ge(min), Le(max))));
    EXPECT_THAT(dimension.others, Each(AllOf(Ge(min), Le(last))));
  }
}

TEST(ScheduledDimension, HasAllSizesOfASmallRange) {
  const auto few = dimension_of(3, 66, 10).others;
  for (int64_t size = 3; size <= 66; ++size) EXPECT_THAT(few, Contains(size));
  EXPECT_THAT(dimension_of(3, 67, 10).others, SizeIs(Le(10)));
}

TEST(ScheduledDimension, HasTheSameSizesInEachCallSmallAndLarge) {
  const auto others = dimension_of(1, 1000000, 10).others;
  EXPECT_EQ(others, dimension_of(1, 1000000, 10).others);
  EXPECT_THAT(others, Contains(Le(1000)));
  EXPECT_THAT(others, Contains(Ge(1001)));
  EXPECT_THAT(dimension_of(100000, kNoMax, 200000).others, Each(Ge(100001)));
}

TEST(FittingSizes, BeginWithTheExampleAndTheSmallestSizes) {
  const auto near =
      fitting_sizes(dimensions_of({{1, kNoMax, 7}, {3, 9, 5}, {kHigh, kNoMax, 2 * kHigh}})).near;
  EXPECT_EQ(near[0], sizes({7, 5, 2 * kHigh}));
  EXPECT_EQ(near[1], sizes({2, 3, kHigh}));
}

TEST(FittingSizes, HaveCloseSizesOfEachDimensionAlone) {
  const auto near = fitting_sizes(dimensions_of({{1, kNoMax, 7}, {3, 9, 5}})).near;
  for (const auto size : {2, 3, 4, 5, 7, 10, 15, 23, 36, 57}) {
    EXPECT_THAT(near, Contains(sizes({size, 3})));
  }
  for (const auto size : {3, 4, 5, 6, 8}) EXPECT_THAT(near, Contains(sizes({2, size})));
}

TEST(FittingSizes, HaveSize1NearOnlyIfThereAreFewOtherSizes) {
  EXPECT_THAT(fitting_sizes(dimensions_of({{1, 3, 2}})).near,
              ElementsAre(sizes({2}), sizes({2}), sizes({2}), sizes({3})));
  EXPECT_THAT(fitting_sizes(dimensions_of({{1, 2, 2}})).near,
              ElementsAre(sizes({2}), sizes({1}), sizes({1}), sizes({2})));
}

TEST(FittingSizes, AreInTheRange) {
  const std::vector<std::array<int64_t, 3>> ranges{{1, kNoMax, 7}, {1, 2, 1},
                                                   {2, 3, 2},      {5, 90, 60},
                                                   {1, 1000, 9},   {kHigh, kHigh + 1, kHigh},
                                                   {2, kNoMax, 2}, {kHigh, kNoMax, kHigh}};
  const auto fitting = fitting_sizes(dimensions_of(ranges, {1, 2, 3, 90, 1000, kHigh}));
  for (const auto& all : {fitting.near, fitting.far, fitting.below_2}) {
    EXPECT_THAT(all, Not(IsEmpty()));
    for (const auto& some : all) {
      ASSERT_THAT(some, SizeIs(ranges.size()));
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        const auto name = "d" + std::to_string(i);
        ASSERT_THAT(some.at(name), AllOf(Ge(ranges[i][0]), Le(ranges[i][1]))) << name;
      }
    }
  }
}

TEST(FittingSizes, HaveFarSizesUpTo1048576AndAroundIntegers) {
  std::vector<int64_t> far;
  for (const auto& some : fitting_sizes(dimensions_of({{1, kHigh, 3}}, {1000})).far) {
    far.push_back(some.at("d0"));
  }
  EXPECT_THAT(far, IsSupersetOf({6, 24, 96, 999, 1000, 1001, 24576}));
  EXPECT_THAT(far, Each(AllOf(Ge(2), Le(1 << 20))));
  EXPECT_TRUE(std::is_sorted(far.begin(), std::find(far.begin(), far.end(), 24576)));  // growing
  EXPECT_EQ(std::set(far.begin(), far.end()).size(), far.size());
  EXPECT_THAT(fitting_sizes(dimensions_of({{2'000'000, kNoMax, 2'000'000}})).far, IsEmpty());
}

TEST(FittingSizes, HaveOneFarSizeAndThenTheLargestOfAll) {
  const auto far = fitting_sizes(dimensions_of({{2, 40, 3}, {3, 50, 5}})).far;
  for (const auto& some : {sizes({40, 3}), sizes({40, 4}), sizes({2, 50}), sizes({3, 50})}) {
    EXPECT_THAT(far, Contains(some));
  }
  EXPECT_EQ(far.back(), sizes({40, 50}));
}

TEST(FittingSizes, HaveSizes0And1OnlyIfTheyAreInTheRange) {
  const auto below_2 = [](const std::vector<std::array<int64_t, 3>>& ranges) {
    return fitting_sizes(dimensions_of(ranges)).below_2;
  };
  EXPECT_THAT(below_2({{1, 99, 3}}), ElementsAre(sizes({1})));
  EXPECT_THAT(below_2({{0, 99, 3}}), ElementsAre(sizes({0}), sizes({1})));
  EXPECT_THAT(below_2({{2, 99, 3}}), IsEmpty());
  EXPECT_THAT(below_2({{0, 9, 3}, {0, 9, 4}}),
              ElementsAre(sizes({0, 2}), sizes({1, 2}), sizes({2, 0}), sizes({2, 1}), sizes({0, 0}),
                          sizes({1, 1})));
  EXPECT_THAT(below_2({{1, 9, 3}, {1, kNoMax, 4}, {3, 9, 5}}),
              ElementsAre(sizes({1, 2, 3}), sizes({2, 1, 3}), sizes({1, 1, 3})));
}

TEST(FittingSizes, HaveAllCombinationsOfFewSizes) {
  const auto fitting = fitting_sizes(dimensions_of({{1, 4, 2}, {3, 6, 5}}));
  for (int64_t first = 1; first <= 4; ++first) {
    for (int64_t second = 3; second <= 6; ++second) {
      EXPECT_THAT(first == 1 ? fitting.below_2 : fitting.far, Contains(sizes({first, second})));
    }
  }
  for (const auto& some : fitting.far) EXPECT_GT(some.at("d0"), 1);
}

TEST(SizesNearExample, AreTheExampleTheMinimaAndDifferentNumbersMore) {
  EXPECT_THAT(sizes_near_example(dimensions_of({{1, kNoMax, 7}, {3, 9, 5}, {2, 8, 8}})),
              ElementsAre(sizes({7, 5, 8}), sizes({1, 3, 2}), sizes({1, 5, 8}), sizes({7, 3, 8}),
                          sizes({7, 5, 2}), sizes({8, 7, 5}), sizes({9, 8, 7}), sizes({10, 6, 6})));
  EXPECT_THAT(sizes_near_example({}), ElementsAre(SizesByName{}));
}

}  // namespace
}  // namespace attend
