#include "attend/ops/alibi.h"

#include "attend/ops/masks.h"
#include "support/close.h"
#include "support/position_schemes.h"
#include "support/throws.h"

#include <gmock/gmock.h>

namespace attend {
namespace {

TEST(AlibiSlopes, AreGeometricForPowersOfTwo) {
  EXPECT_THAT(alibi_slopes(1), testing::ElementsAre(1.0 / 256));
  EXPECT_THAT(alibi_slopes(4), testing::ElementsAre(1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256));
  EXPECT_THAT(alibi_slopes(8), testing::ElementsAre(1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32,
                                                    1.0 / 64, 1.0 / 128, 1.0 / 256));
}

TEST(AlibiSlopes, InterleaveNextPowerOfTwoForOtherNumbers) {
  EXPECT_THAT(alibi_slopes(3), testing::ElementsAre(1.0 / 16, 1.0 / 256, 1.0 / 4));
  const auto twelve = alibi_slopes(12);
  ASSERT_EQ(twelve.size(), 12U);
  EXPECT_NEAR(twelve[8], 0.70710678, 1e-8);
  EXPECT_NEAR(twelve[11], 0.08838835, 1e-8);
}

TEST(AlibiSlopes, MatchRecursionOfThePaper) {
  for (int64_t heads = 1; heads <= 40; ++heads) {
    const auto slopes = alibi_slopes(heads);
    ASSERT_EQ(slopes.size(), static_cast<size_t>(heads));
    for (int64_t h = 0; h < heads; ++h) {
      EXPECT_NEAR(slopes[static_cast<size_t>(h)], slope_of_head(h, heads), 1e-15) << heads;
    }
  }
}

TEST(AlibiSlopes, NonPositiveNumHeadsThrows) {
  EXPECT_THAT([] { alibi_slopes(0); }, throws<c10::ValueError>("num_heads (0) must be positive"));
}

TEST(AlibiBias, IsMinusSlopeTimesDistance) {
  const auto offsets = key_offsets(torch::zeros({2, 2, 4}), torch::zeros({2, 4, 4}));
  const auto bias = alibi_bias(offsets, torch::tensor({0.5, 2.0}));
  const auto expected = torch::tensor({{{-1.0, -0.5, -0.0, -0.5}, {-1.5, -1.0, -0.5, -0.0}},
                                       {{-4.0, -2.0, -0.0, -2.0}, {-6.0, -4.0, -2.0, -0.0}}});
  EXPECT_TRUE(close(bias, expected, 0.0));
}

TEST(AlibiBias, HasBatchDimensionForBatchedPositions) {
  const auto q = torch::zeros({2, 3, 2, 4});
  const auto offsets = key_offsets(q, q, {.positions = torch::tensor({{0, 1}, {0, 5}})});
  const auto bias = alibi_bias(offsets, torch::ones({3}));
  EXPECT_EQ(bias.sizes(), at::IntArrayRef({2, 3, 2, 2}));
  EXPECT_TRUE(close(bias[0][2], torch::tensor({{0.0, -1.0}, {-1.0, 0.0}}), 0.0));
  EXPECT_TRUE(close(bias[1][2], torch::tensor({{0.0, -5.0}, {-5.0, 0.0}}), 0.0));
}

}  // namespace
}  // namespace attend
