#include "export/program/sampled_sizes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <string>

namespace attend::program {
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

/// A second name for `Run`, which `testing::Test::Run` hides inside the tests.
using Combination = Run;

/// Returns one dimension for each element of `ranges`. An element contains the minimum, the maximum
/// and the example's size.
std::vector<SampledDimension> dimensions_of(const std::vector<std::array<int64_t, 3>>& ranges,
                                            const std::set<int64_t>& integers = {}) {
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
  return sampled_dimensions(example, dynamic, integers);
}

TEST(SampledDimensions, HaveSymbolsRangesAndTheExamplesSizes) {
  const auto dimensions = dimensions_of({{1, kNoMax, 7}, {3, 9, 5}});
  ASSERT_THAT(dimensions, SizeIs(2));
  EXPECT_EQ(dimensions[0].name, "d0");
  EXPECT_EQ(dimensions[0].symbol, "s0");
  EXPECT_EQ(dimensions[0].range.min, 1);
  EXPECT_EQ(dimensions[0].range.max, std::nullopt);
  EXPECT_EQ(dimensions[0].example, 7);
  EXPECT_EQ(dimensions[1].symbol, "s1");
  EXPECT_EQ(dimensions[1].range.min, 3);
  EXPECT_EQ(dimensions[1].range.max, 9);
  EXPECT_EQ(dimensions[1].example, 5);
}

TEST(SampledDimensions, OmitConstantSizes) {
  const auto dimensions = dimensions_of({{4, 4, 4}, {1, 9, 5}});
  ASSERT_THAT(dimensions, SizeIs(1));
  EXPECT_EQ(dimensions[0].name, "d1");
  EXPECT_EQ(dimensions[0].symbol, "s0");
  EXPECT_THAT(dimensions_of({{4, 4, 4}}), IsEmpty());
}

TEST(SampledDimensions, HaveEachNameOnce) {
  const auto dimensions = sampled_dimensions(
      {torch::empty({3, 3})}, {{.dimension = 0, .name = "n"}, {.dimension = 1, .name = "n"}}, {});
  EXPECT_THAT(dimensions, SizeIs(1));
}

TEST(SampledDimensions, HaveSize1OnlyIfThereAreFewOtherSizes) {
  EXPECT_THAT(dimensions_of({{1, 3, 2}})[0].sizes, ElementsAre(2, 3));
  EXPECT_THAT(dimensions_of({{1, 2, 2}})[0].sizes, ElementsAre(1, 2));
  EXPECT_THAT(dimensions_of({{1, 3, 2}})[0].far, Not(Contains(1)));
}

TEST(SampledDimensions, HaveFarSizesUpTo1048576AndAroundIntegers) {
  const auto far = dimensions_of({{1, kHigh, 3}}, {1000})[0].far;
  EXPECT_THAT(far, IsSupersetOf({6, 24, 96, 999, 1000, 1001, 24576}));
  EXPECT_THAT(far, Each(Le(1 << 20)));
  EXPECT_TRUE(std::is_sorted(far.begin(), std::find(far.begin(), far.end(), 24576)));  // growing
  EXPECT_EQ(std::set(far.begin(), far.end()).size(), far.size());
}

TEST(SampledRuns, BeginWithTheExampleAndTheFirstSizes) {
  const auto runs = runs_of(dimensions_of({{1, kNoMax, 7}, {3, 9, 5}, {kHigh, kNoMax, 2 * kHigh}}));
  EXPECT_THAT(runs[0], ElementsAre(7, 5, 2 * kHigh));
  EXPECT_THAT(runs[1], ElementsAre(2, 3, kHigh));
}

TEST(SampledRuns, HaveAllSizesOfEachDimensionAlone) {
  const auto dimensions = dimensions_of({{1, kNoMax, 7}, {3, 9, 5}});
  const auto runs = runs_of(dimensions);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    for (const auto size : dimensions[i].sizes) {
      auto run = runs[1];
      run[i] = size;
      EXPECT_THAT(runs, Contains(run));
    }
  }
}

TEST(SampledRuns, AreInTheRange) {
  const std::vector<std::array<int64_t, 3>> ranges{{1, kNoMax, 7}, {1, 2, 1},
                                                   {2, 3, 2},      {5, 90, 60},
                                                   {1, 1000, 9},   {kHigh, kHigh + 1, kHigh},
                                                   {2, kNoMax, 2}, {kHigh, kNoMax, kHigh}};
  const auto expect_in_range = [&](const std::vector<Combination>& runs) {
    for (const auto& run : runs) {
      ASSERT_THAT(run, SizeIs(ranges.size()));
      for (std::size_t i = 0; i < run.size(); ++i) {
        ASSERT_THAT(run[i], AllOf(Ge(ranges[i][0]), Le(ranges[i][1]))) << "dimension " << i;
      }
    }
  };
  const auto dimensions = dimensions_of(ranges, {1, 2, 3, 90, 1000, kHigh});
  const auto runs = runs_of(dimensions);
  expect_in_range(runs);
  expect_in_range(far_runs_of(dimensions, runs));
  expect_in_range(runs_with_ones(dimensions, runs));
}

TEST(SampledRuns, HaveOneFarSizeAndThenTheLargestOfAll) {
  const auto dimensions = dimensions_of({{2, 40, 3}, {3, 50, 5}});
  const auto runs = far_runs_of(dimensions, runs_of(dimensions));
  EXPECT_THAT(runs, Contains(Combination{40, 3}));
  EXPECT_THAT(runs, Contains(Combination{40, 4}));
  EXPECT_THAT(runs, Contains(Combination{2, 50}));
  EXPECT_THAT(runs, Contains(Combination{3, 50}));
  EXPECT_EQ(runs.back(), (Combination{40, 50}));
}

TEST(SampledRuns, HaveNoFarSizesAbove1048576) {
  const auto one = dimensions_of({{2'000'000, kNoMax, 2'000'000}});
  EXPECT_THAT(far_runs_of(one, runs_of(one)), IsEmpty());
}

TEST(SampledRuns, HaveSize1OnlyIfItIsInTheRange) {
  const auto ones_of = [](const std::vector<std::array<int64_t, 3>>& ranges) {
    const auto dimensions = dimensions_of(ranges);
    return runs_with_ones(dimensions, runs_of(dimensions));
  };
  EXPECT_THAT(ones_of({{1, 99, 3}}), ElementsAre(Combination{1}));
  EXPECT_THAT(ones_of({{2, 99, 3}}), IsEmpty());
  EXPECT_THAT(ones_of({{1, 9, 3}, {1, kNoMax, 4}, {3, 9, 5}}),
              ElementsAre(Combination{1, 2, 3}, Combination{2, 1, 3}, Combination{1, 1, 3}));
}

TEST(SampledRuns, HaveAllCombinationsOfFewSizes) {
  const auto dimensions = dimensions_of({{1, 4, 2}, {3, 6, 5}});
  const auto runs = runs_of(dimensions);
  const auto far = far_runs_of(dimensions, runs);
  const auto with_ones = runs_with_ones(dimensions, runs);
  for (int64_t first = 1; first <= 4; ++first) {
    for (int64_t second = 3; second <= 6; ++second) {
      EXPECT_THAT(first == 1 ? with_ones : far, Contains(Combination{first, second}));
    }
  }
  EXPECT_THAT(far, Each(Not(Contains(1))));
}

}  // namespace
}  // namespace attend::program
