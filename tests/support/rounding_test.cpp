#include "support/rounding.h"

#include "support/seed.h"

#include <cmath>
#include <limits>

namespace attend {
namespace {

struct WithinRounding : FixedSeed, testing::Test {
  const torch::Tensor x = torch::randn({20, 100});
  const torch::Tensor weight = torch::randn({100, 30});

  testing::AssertionResult is_product(const torch::Tensor& found,
                                      const Rounding& rounding = {}) const {
    return equals_in_float64(
        found, {x, weight}, [](const Tensors& in) { return in[0].mm(in[1]); }, rounding);
  }
};

TEST_F(WithinRounding, AcceptsOnlyTheEffectsOfRounding) {
  const auto y = x.mm(weight);
  EXPECT_TRUE(is_product(y));
  EXPECT_FALSE(is_product(y * 1.0001));
  auto changed = y.clone();
  changed[3][4] += 1e-3 * y.abs().max();
  EXPECT_FALSE(is_product(changed));
  changed[3][4] = std::nanf("");
  EXPECT_FALSE(is_product(changed));
  EXPECT_FALSE(is_product(y.narrow(0, 0, 19)));
}

TEST_F(WithinRounding, UsesTheDtypeOfTheResult) {
  const auto y = x.mm(weight);
  EXPECT_TRUE(is_product(y.to(torch::kBFloat16)));
  EXPECT_FALSE(is_product(y.to(torch::kBFloat16).to(torch::kFloat)));
  EXPECT_FALSE(is_product(y.to(torch::kBFloat16) * 1.1, {.dtype = torch::kFloat}));
  EXPECT_FALSE(is_product(y.to(torch::kDouble)));
}

TEST_F(WithinRounding, FollowsTheCondition) {
  const auto large = torch::full({20, 100}, 1e6F);
  const auto found = x + large - large;  // has errors of up to 0.03
  EXPECT_TRUE(equals_in_float64(found, {x, large},
                                [](const Tensors& in) { return in[0] + in[1] - in[1].mean(); }));
  EXPECT_FALSE(equals_in_float64(found, {x}, [](const Tensors& in) { return in[0]; }));
}

TEST_F(WithinRounding, AcceptsEqualInfinitiesAndRestoresTheLeaves) {
  const auto leaf = torch::randn({3}, torch::kDouble), before = leaf.clone();
  const auto infinite = [&] { return leaf / torch::tensor({1.0, 0.0, 2.0}, torch::kDouble); };
  const auto y = infinite();
  EXPECT_TRUE(within_rounding(y, {leaf}, infinite));
  EXPECT_FALSE(within_rounding(-y, {leaf}, infinite));
  EXPECT_TRUE(leaf.equal(before));
}

}  // namespace
}  // namespace attend
