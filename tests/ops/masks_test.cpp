#include "attend/ops/masks.h"

#include "support/close.h"
#include "support/throws.h"
#include "support/trace.h"

#include <limits>
#include <vector>

namespace attend {
namespace {

torch::Tensor bools(std::initializer_list<std::initializer_list<int>> rows) {
  std::vector<torch::Tensor> lines;
  for (const auto& row : rows) lines.push_back(torch::tensor(std::vector<int>(row)));
  return torch::stack(lines).to(torch::kBool);
}

torch::Tensor causal_mask_of(int64_t queries, int64_t keys) {
  return causal_mask(torch::zeros({queries, 4}), torch::zeros({keys, 4}));
}

TEST(CausalMask, IsLowerTriangularForEqualLengths) {
  EXPECT_TRUE(torch::equal(causal_mask_of(3, 3), bools({{1, 0, 0}, {1, 1, 0}, {1, 1, 1}})));
}

TEST(CausalMask, IsAlignedBottomRightForMoreKeys) {
  EXPECT_TRUE(torch::equal(causal_mask_of(2, 3), bools({{1, 1, 0}, {1, 1, 1}})));
  EXPECT_TRUE(torch::equal(causal_mask_of(1, 4), bools({{1, 1, 1, 1}})));
}

TEST(CausalMask, FirstRowsAreFullyMaskedForFewerKeys) {
  EXPECT_TRUE(torch::equal(causal_mask_of(3, 1), bools({{0}, {0}, {1}})));
  EXPECT_TRUE(torch::equal(causal_mask_of(3, 2), bools({{0, 0}, {1, 0}, {1, 1}})));
}

TEST(CausalMask, IgnoresOtherDimensions) {
  const auto mask = causal_mask(torch::zeros({0, 2, 2, 4}), torch::zeros({0, 2, 3, 0}));
  EXPECT_TRUE(torch::equal(mask, bools({{1, 1, 0}, {1, 1, 1}})));
}

TEST(CausalMask, IsEmptyWithoutQueriesOrKeys) {
  EXPECT_EQ(causal_mask_of(0, 3).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(causal_mask_of(3, 0).sizes(), at::IntArrayRef({3, 0}));
}

TEST(CausalMask, TraceGeneralizesToOtherSizes) {
  const auto run = [](const Tensors& x) { return causal_mask(x[0], x[1]); };
  const auto traced = trace(run, {torch::zeros({2, 3, 4}), torch::zeros({2, 3, 4})});
  const Tensors other = {torch::zeros({1, 2, 4}), torch::zeros({1, 5, 4})};
  EXPECT_TRUE(torch::equal(traced(other), run(other)));
}

TEST(CombineMasks, UndefinedMaskAllowsAll) {
  const auto mask = bools({{1, 0}});
  EXPECT_TRUE(combine_masks({}, mask).is_same(mask));
  EXPECT_TRUE(combine_masks(mask, {}).is_same(mask));
  EXPECT_FALSE(combine_masks({}, {}).defined());
}

TEST(CombineMasks, BoolMasksAreCombinedWithAnd) {
  const auto mask = combine_masks(bools({{1, 1, 0, 0}}), bools({{1, 0, 1, 0}}));
  EXPECT_TRUE(torch::equal(mask, bools({{1, 0, 0, 0}})));
}

TEST(CombineMasks, FloatMasksAreAdded) {
  const auto mask = combine_masks(torch::tensor({1.5, kMinusInfinity}), torch::tensor({2.0, 1.0}));
  EXPECT_TRUE(close(mask, torch::tensor({3.5, kMinusInfinity}), 0.0));
}

TEST(CombineMasks, FalseBecomesMinusInfinityInFloatMask) {
  const auto allowed = torch::tensor({true, false});
  const auto added = torch::tensor({1.5, 2.5});
  const auto expected = torch::tensor({1.5, kMinusInfinity});
  EXPECT_TRUE(close(combine_masks(allowed, added), expected, 0.0));
  EXPECT_TRUE(close(combine_masks(added, allowed), expected, 0.0));
}

TEST(CombineMasks, ResultHasDtypeOfFloatMask) {
  const auto allowed = torch::tensor({true, false});
  for (const auto dtype : {torch::kHalf, torch::kBFloat16, torch::kFloat, torch::kDouble}) {
    EXPECT_EQ(combine_masks(allowed, torch::zeros({2}, dtype)).scalar_type(), dtype);
  }
}

TEST(CombineMasks, Broadcasts) {
  const auto keys = bools({{1, 0}, {1, 1}}).view({2, 1, 1, 2});  // (B, 1, 1, S)
  const auto mask = combine_masks(causal_mask_of(2, 2), keys);
  EXPECT_EQ(mask.sizes(), at::IntArrayRef({2, 1, 2, 2}));
  EXPECT_TRUE(torch::equal(mask[0][0], bools({{1, 0}, {1, 0}})));
  EXPECT_TRUE(torch::equal(mask[1][0], bools({{1, 0}, {1, 1}})));
}

TEST(CombineMasks, IntegerMasksThrow) {
  const auto mask = torch::ones({2, 2}, torch::kBool);
  for (const auto& numbers : {mask.to(torch::kLong), mask.to(torch::kByte)}) {
    EXPECT_THAT([&] { combine_masks(mask, numbers); },
                throws<c10::TypeError>(
                    "mask must be bool (true = may attend) or float (added to the scores)"));
    EXPECT_THAT([&] { combine_masks({}, numbers); }, throws<c10::TypeError>("found"));
  }
}

TEST(FullyMaskedRowsOfMask, AreAllFalseInBoolMask) {
  EXPECT_TRUE(torch::equal(fully_masked_rows(bools({{0, 0}, {0, 1}})), bools({{1}, {0}})));
}

TEST(FullyMaskedRowsOfMask, AreAllMinusInfinityInFloatMask) {
  const auto mask = torch::tensor({{kMinusInfinity, kMinusInfinity}, {kMinusInfinity, -1e30}});
  EXPECT_TRUE(torch::equal(fully_masked_rows(mask), bools({{1}, {0}})));
}

TEST(FullyMaskedRowsOfMask, AreAllRowsWithoutKeys) {
  EXPECT_TRUE(torch::equal(fully_masked_rows(causal_mask_of(2, 0)), bools({{1}, {1}})));
}

}  // namespace
}  // namespace attend
