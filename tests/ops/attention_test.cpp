#include "attend/ops/attention.h"

#include "support/close.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace attend {
namespace {

struct ScaledDotProductAttention : FixedSeed, testing::Test {
  torch::Tensor q = torch::randn({2, 3, 4, 5}, torch::kDouble);  // (B, H, T, D)
  torch::Tensor k = torch::randn({2, 3, 6, 5}, torch::kDouble);  // (B, H, S, D)
  torch::Tensor v = torch::randn({2, 3, 6, 7}, torch::kDouble);  // (B, H, S, Dv)
};

/// Draws a mask that broadcasts to `scores_shape` (B, H, T, S). Some dimensions of the mask may
/// have size 1, and leading dimensions may be missing. The mask is undefined if `kind` is 0, bool
/// if 1, float if 2, and float with some elements -inf if 3.
torch::Tensor draw_mask(int64_t kind, std::vector<int64_t> scores_shape) {
  if (kind == 0) return {};
  for (auto& size : scores_shape) size = draw(0, 3) == 0 ? 1 : size;
  const auto missing = draw(0, 2);
  if (missing == 1) scores_shape[1] = 1;  // (H, T, S) would be ambiguous
  scores_shape.erase(scores_shape.begin(), scores_shape.begin() + missing);
  const auto allowed = torch::rand(scores_shape) > 0.3;
  if (kind == 1) return allowed;
  const auto added = torch::randn(scores_shape, torch::kDouble);
  return kind == 2 ? added : torch::where(allowed, added, kMinusInfinity);
}

TEST_F(ScaledDotProductAttention, MatchesReferenceInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 100; ++i) {
    const auto b = draw(1, 3), h = draw(1, 3), t = draw(1, 5), s = draw(1, 5), d = draw(1, 9);
    const auto query = torch::randn({b, h, t, d}, torch::kDouble);
    const auto key = torch::randn({b, h, s, d}, torch::kDouble);
    const auto value = torch::randn({b, h, s, draw(1, 9)}, torch::kDouble);
    AttentionArgs args{.mask = draw_mask(draw(0, 3), {b, h, t, s}), .causal = draw(0, 1) == 1};
    const auto scale = draw(0, 1) == 1 ? std::make_optional(0.3) : std::nullopt;
    SCOPED_TRACE(testing::Message()
                 << "case " << i << ": query " << query.sizes() << ", key " << key.sizes()
                 << ", causal " << args.causal << ", mask " << args.mask);

    const auto fused = attend::dot_product_attention(query, key, value, args, {.scale = scale});
    args.need_weights = true;
    const auto full = attend::dot_product_attention(query, key, value, args, {.scale = scale});
    EXPECT_TRUE(within_rounding({fused.output, full.output, full.weights},
                                {query, key, value, args.mask}, [&]() -> Tensors {
                                  const auto [y, weights] =
                                      attention_in_loops(query, key, value, args, {.scale = scale});
                                  return {y, y, weights};
                                }));
  }
}

TEST_F(ScaledDotProductAttention, ReturnsWeightsOnlyIfNeedWeights) {
  EXPECT_FALSE(attend::dot_product_attention(q, k, v, AttentionArgs()).weights.defined());
  EXPECT_EQ(attend::dot_product_attention(q, k, v, {.need_weights = true}).weights.sizes(),
            at::IntArrayRef({2, 3, 4, 6}));
}

TEST_F(ScaledDotProductAttention, TrueMeansMayAttend) {
  auto only_first = torch::zeros({4, 6}, torch::kBool);
  only_first.select(1, 0).fill_(true);
  const auto y = attend::dot_product_attention(q, k, v, {.mask = only_first}).output;
  EXPECT_TRUE(close(y, v.narrow(-2, 0, 1).expand({2, 3, 4, 7}), 1e-14));
}

TEST_F(ScaledDotProductAttention, FloatMaskIsAddedToTheScaledScores) {
  // Adding log 2 doubles a key's unnormalized weight.
  const auto mask = torch::tensor({0.0, std::log(2.0)}, torch::kDouble);
  const auto x = torch::zeros({2, 5}, torch::kDouble);  // all scores 0
  const auto weights =
      attend::dot_product_attention(x, x, x, {.mask = mask, .need_weights = true}).weights;
  EXPECT_TRUE(close(weights[0], torch::tensor({1 / 3.0, 2 / 3.0}, torch::kDouble), 1e-15));
}

TEST_F(ScaledDotProductAttention, CausalAndMaskCombine) {
  const auto keys = torch::tensor({{1, 1, 1, 0, 1, 1}, {0, 0, 0, 1, 1, 1}}).to(torch::kBool);
  const AttentionArgs args{.mask = keys.view({2, 1, 1, 6}), .causal = true, .need_weights = true};
  const auto weights = attend::dot_product_attention(q, k, v, args).weights;
  // With 4 queries and 6 keys, query t is aligned with key t + 2.
  EXPECT_TRUE(
      torch::equal(weights[0][0][1] > 0, torch::tensor({1, 1, 1, 0, 0, 0}).to(torch::kBool)));
  EXPECT_TRUE(
      torch::equal(weights[1][0][1] > 0, torch::tensor({0, 0, 0, 1, 0, 0}).to(torch::kBool)));
}

TEST_F(ScaledDotProductAttention, LastQueriesAloneEqualTheWholeSequence) {
  const auto queries = torch::randn({2, 3, 6, 5}, torch::kDouble);
  const AttentionArgs causal{.causal = true};
  const auto whole = attend::dot_product_attention(queries, k, v, causal).output;
  const auto last = attend::dot_product_attention(queries.narrow(-2, 4, 2), k, v, causal).output;
  EXPECT_TRUE(close(last, whole.narrow(-2, 4, 2), 1e-14));
}

TEST_F(ScaledDotProductAttention, DefaultScaleIsInverseSquareRootOfHeadDim) {
  const auto scaled = attend::dot_product_attention(q, k, v, {}, {.scale = 1 / std::sqrt(5.0)});
  const auto unscaled =
      attend::dot_product_attention(q / std::sqrt(5.0), k, v, {}, {.scale = kUnscaled});
  const auto y = attend::dot_product_attention(q, k, v, AttentionArgs()).output;
  EXPECT_TRUE(close(y, scaled.output, 1e-14));
  EXPECT_TRUE(close(y, unscaled.output, 1e-14));
}

TEST_F(ScaledDotProductAttention, DropoutZeroesWeightsAndRescalesTheRest) {
  const auto x = torch::zeros({1, 1, 200, 5});    // equal scores
  const auto ones = torch::ones({1, 1, 200, 1});  // each output is the sum of the remaining weights
  for (const bool need_weights : {false, true}) {
    const AttentionArgs args{.need_weights = need_weights};
    const auto y = attend::dot_product_attention(x, x, ones, args, {.dropout = 0.25}).output;
    EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.02);
    EXPECT_GT(y.std().item<double>(), 0.01);
    const auto again = attend::dot_product_attention(x, x, ones, args, {.dropout = 0.25}).output;
    EXPECT_FALSE(torch::allclose(y, again));
  }
}

TEST_F(ScaledDotProductAttention, ReturnedWeightsAreBeforeDropout) {
  const AttentionArgs args{.need_weights = true};
  const auto dropped = attend::dot_product_attention(q, k, v, args, {.dropout = 0.5});
  const auto whole = attend::dot_product_attention(q, k, v, args);
  EXPECT_TRUE(close(dropped.weights, whole.weights, 0.0));
  EXPECT_FALSE(torch::allclose(dropped.output, whole.output));
}

}  // namespace
}  // namespace attend
