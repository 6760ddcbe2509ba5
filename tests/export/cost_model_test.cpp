#include "export/cost_model.h"

#include <gmock/gmock.h>

#include <limits>
#include <string>
#include <vector>

namespace attend {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Lt;

const SizesByName kBase{{"batch", 2}, {"length", 8}};
constexpr OperatorCost kBaseCost{.bytes = 100, .elements = 1000};

struct CostModelTest : testing::Test {
  CostModel costs{kBase, kBaseCost};
  void add(const std::string& dimension, int64_t size, const OperatorCost& cost) {
    auto sizes = kBase;
    sizes[dimension] = size;
    costs.add(sizes, cost);
  }
  OperatorCost predict(int64_t batch, int64_t length) const {
    return costs.predict({{"batch", batch}, {"length", length}});
  }
};

TEST_F(CostModelTest, ReturnsKnownCosts) {
  add("length", 16, {.bytes = 300, .elements = 1700});
  EXPECT_EQ(predict(2, 8).bytes, 100);
  EXPECT_EQ(predict(2, 8).elements, 1000);
  EXPECT_EQ(predict(2, 16).bytes, 300);
  EXPECT_EQ(predict(2, 16).elements, 1700);
}

TEST_F(CostModelTest, InterpolatesBetweenKnownSizes) {
  add("length", 32, {.bytes = 1600, .elements = 4000});  // bytes: quadratic, elements: linear
  EXPECT_EQ(predict(2, 16).bytes, 400);
  EXPECT_EQ(predict(2, 16).elements, 2000);
}

TEST_F(CostModelTest, AssumesTheCostOfTheSmallestKnownSizeBelowIt) {
  EXPECT_EQ(predict(2, 1).bytes, 100);
}

TEST_F(CostModelTest, AssumesQuadraticGrowthIfOnlyTheBaseIsKnown) {
  EXPECT_EQ(predict(2, 24).bytes, 900);
  EXPECT_EQ(predict(2, 24).elements, 9000);
}

TEST_F(CostModelTest, EstimatesTheGrowthOfBytesAndElementsSeparately) {
  add("length", 16, {.bytes = 200, .elements = 4000});  // bytes: linear, elements: quadratic
  const auto predicted = predict(2, 64);
  EXPECT_THAT(predicted.bytes, AllOf(Ge(4 * 200), Lt(8 * 200)));
  EXPECT_THAT(predicted.elements, AllOf(Ge(16 * 4000), Lt(32 * 4000)));
}

TEST_F(CostModelTest, EstimatesTheGrowthFromTheTwoLargestSizes) {
  add("length", 64, {.bytes = 1600, .elements = 1000});
  add("length", 32, {.bytes = 400, .elements = 1000});  // growth is quadratic from 32 to 64
  EXPECT_THAT(predict(2, 256).bytes, AllOf(Ge(16 * 1600), Lt(32 * 1600)));
}

TEST_F(CostModelTest, AssumesAtLeastLinearGrowthAboveTheLargestSize) {
  add("length", 16, {.bytes = 50, .elements = 1000});
  EXPECT_EQ(predict(2, 64).bytes, 4 * 50);
}

TEST_F(CostModelTest, MultipliesTheFactorsOfTheDimensions) {
  add("batch", 4, {.bytes = 200, .elements = 2000});
  add("length", 16, {.bytes = 400, .elements = 3000});
  EXPECT_EQ(predict(4, 16).bytes, 800);
  EXPECT_EQ(predict(4, 16).elements, 6000);
}

TEST_F(CostModelTest, DoesNotOverflow) {
  const auto size = std::numeric_limits<int64_t>::max();
  EXPECT_GT(predict(size, size).bytes, int64_t{1} << 59);
  EXPECT_GT(predict(size, size).elements, int64_t{1} << 59);
}

TEST_F(CostModelTest, AcceptsABaseWithoutCost) {
  costs = CostModel(kBase, {});
  add("length", 16, {.bytes = 70, .elements = 90});
  EXPECT_EQ(predict(2, 16).bytes, 70);
  EXPECT_EQ(predict(2, 16).elements, 90);
}

TEST_F(CostModelTest, IgnoresSizesThatDifferInSeveralDimensions) {
  costs.add({{"batch", 3}, {"length", 9}}, {.bytes = 70, .elements = 90});
  costs.add(kBase, {.bytes = 70, .elements = 90});
  EXPECT_EQ(costs.largest("batch"), 2);
  EXPECT_EQ(costs.largest("length"), 8);
  EXPECT_EQ(predict(2, 8).bytes, 100);
}

TEST_F(CostModelTest, LargestIsTheLargestKnownSizeOfADimension) {
  EXPECT_EQ(costs.largest("length"), 8);
  add("length", 32, kBaseCost);
  add("length", 16, kBaseCost);
  EXPECT_EQ(costs.largest("length"), 32);
  EXPECT_EQ(costs.largest("batch"), 2);
}

/// Runs cost 10 bytes and 100 elements per batch element.
struct RunLoopTest : testing::Test {
  std::vector<int64_t> batches;  // of all runs
  RunLoop loop{kBase, {.bytes = 1000, .elements = 3000}, [&](const SizesByName& sizes) {
                 batches.push_back(sizes.at("batch"));
                 return OperatorCost{10 * batches.back(), 100 * batches.back()};
               }};
};

TEST_F(RunLoopTest, OmitsARunThatNeedsTooMuchMemory) {
  loop.run({{"batch", 4}, {"length", 8}});
  EXPECT_FALSE(loop.run_if_affordable({{"batch", 200}, {"length", 8}}, /*max_elements=*/1 << 20));
  EXPECT_TRUE(loop.run_if_affordable({{"batch", 50}, {"length", 8}}, /*max_elements=*/1 << 20));
  EXPECT_THAT(batches, testing::ElementsAre(2, 4, 50));
  EXPECT_EQ(loop.costs().largest("batch"), 50);
}

TEST_F(RunLoopTest, OmitsRunsAfterTooManyElements) {
  loop.run({{"batch", 20}, {"length", 8}});
  for (const auto batch : {19, 18, 5}) loop.run_if_affordable({{"batch", batch}, {"length", 8}});
  EXPECT_THAT(batches, testing::ElementsAre(2, 20, 19, 5));
}

}  // namespace
}  // namespace attend
