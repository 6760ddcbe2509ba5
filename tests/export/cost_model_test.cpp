#include "export/cost_model.h"

#include <gmock/gmock.h>

#include <limits>

namespace attend {
namespace {

using testing::AllOf;
using testing::Ge;
using testing::Lt;

const SizesByName kBase{{"batch", 2}, {"length", 8}};
constexpr OperatorCost kBaseCost{.bytes = 100, .elements = 1000};

struct CostModelTest : testing::Test {
  CostModel costs{kBase, kBaseCost};
  OperatorCost predict(int64_t batch, int64_t length) const {
    return costs.predict({{"batch", batch}, {"length", length}});
  }
};

TEST_F(CostModelTest, ReturnsKnownCosts) {
  costs.add("length", 16, {.bytes = 300, .elements = 1700});
  EXPECT_EQ(predict(2, 8).bytes, 100);
  EXPECT_EQ(predict(2, 8).elements, 1000);
  EXPECT_EQ(predict(2, 16).bytes, 300);
  EXPECT_EQ(predict(2, 16).elements, 1700);
}

TEST_F(CostModelTest, InterpolatesBetweenKnownSizes) {
  costs.add("length", 32, {.bytes = 1600, .elements = 4000});  // bytes: quadratic, elements: linear
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
  costs.add("length", 16, {.bytes = 200, .elements = 4000});  // bytes: linear, elements: quadratic
  const auto predicted = predict(2, 64);
  EXPECT_THAT(predicted.bytes, AllOf(Ge(4 * 200), Lt(8 * 200)));
  EXPECT_THAT(predicted.elements, AllOf(Ge(16 * 4000), Lt(32 * 4000)));
}

TEST_F(CostModelTest, EstimatesTheGrowthFromTheTwoLargestSizes) {
  costs.add("length", 64, {.bytes = 1600, .elements = 1000});
  costs.add("length", 32, {.bytes = 400, .elements = 1000});  // growth is quadratic from 32 to 64
  EXPECT_THAT(predict(2, 256).bytes, AllOf(Ge(16 * 1600), Lt(32 * 1600)));
}

TEST_F(CostModelTest, AssumesAtLeastLinearGrowthAboveTheLargestSize) {
  costs.add("length", 16, {.bytes = 50, .elements = 1000});
  EXPECT_EQ(predict(2, 64).bytes, 4 * 50);
}

TEST_F(CostModelTest, MultipliesTheFactorsOfTheDimensions) {
  costs.add("batch", 4, {.bytes = 200, .elements = 2000});
  costs.add("length", 16, {.bytes = 400, .elements = 3000});
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
  costs.add("length", 16, {.bytes = 70, .elements = 90});
  EXPECT_EQ(predict(2, 16).bytes, 70);
  EXPECT_EQ(predict(2, 16).elements, 90);
}

TEST_F(CostModelTest, LargestIsTheLargestKnownSizeOfADimension) {
  EXPECT_EQ(costs.largest("length"), 8);
  costs.add("length", 32, kBaseCost);
  costs.add("length", 16, kBaseCost);
  EXPECT_EQ(costs.largest("length"), 32);
  EXPECT_EQ(costs.largest("batch"), 2);
}

}  // namespace
}  // namespace attend
