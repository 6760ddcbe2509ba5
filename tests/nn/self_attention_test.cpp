#include "attend/nn/self_attention.h"

#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

torch::Tensor self_attend(const SelfAttention& attention, const torch::Tensor& x,
                          const AttentionArgs& args = {}) {
  return attention.ptr()->forward(x, args).output;
}

TEST(SelfAttention, WidthsDefaultToEmbedDim) {
  SelfAttention attention(SelfAttentionOptions(6));
  const auto [output, weights] =
      attention->forward(torch::randn({2, 3, 6}), {.need_weights = true});
  EXPECT_EQ(output.sizes(), at::IntArrayRef({2, 3, 6}));
  EXPECT_EQ(weights.sizes(), at::IntArrayRef({2, 3, 3}));
  EXPECT_EQ(attention->key->weight.sizes(), at::IntArrayRef({6, 6}));
}

TEST(SelfAttention, SupportsOtherQueryAndValueWidths) {
  SelfAttention attention(SelfAttentionOptions(6).qk_dim(2).v_dim(5));
  EXPECT_EQ(self_attend(attention, torch::randn({2, 3, 6})).sizes(), at::IntArrayRef({2, 3, 5}));
  EXPECT_EQ(attention->query->weight.sizes(), at::IntArrayRef({2, 6}));
  EXPECT_EQ(attention->value->weight.sizes(), at::IntArrayRef({5, 6}));
}

TEST(SelfAttention, ScaleSetsTheDivisorOfTheScores) {
  torch::manual_seed(1);
  const auto x = torch::randn({3, 9});
  SelfAttention attention(SelfAttentionOptions(9).qk_dim(4));
  const auto scores = torch::matmul(attention->query(x), attention->key(x).t());
  const auto expect_divisor = [&](std::optional<double> scale, double divisor) {
    attention->options.scale(scale);
    const auto weights = attention->forward(x, {.need_weights = true}).weights;
    EXPECT_TRUE(close(weights, torch::softmax(scores / divisor, -1), 1e-6)) << divisor;
  };
  expect_divisor(kUnscaled, 1.0);
  expect_divisor(std::nullopt, 2.0);
  expect_divisor(1.0 / 3.0, 3.0);
}

TEST(SelfAttention, UnbatchedEqualsBatched) {
  SelfAttention attention(SelfAttentionOptions(4));
  const auto x = torch::randn({2, 3, 4});
  const AttentionArgs causal{.causal = true};
  EXPECT_TRUE(
      close(self_attend(attention, x[1], causal), self_attend(attention, x, causal)[1], 1e-6));
}

TEST(SelfAttention, FullyMaskedRowGivesZeros) {
  SelfAttention attention(SelfAttentionOptions(4).v_dim(3));
  const auto mask = torch::tensor({{false, false}, {true, true}});
  const auto y = self_attend(attention, torch::randn({5, 2, 4}), {.mask = mask});
  EXPECT_TRUE(close(y.select(1, 0), torch::zeros({5, 3}), 0.0));
}

TEST(SelfAttention, StateDictHasDocumentedKeys) {
  using testing::ElementsAre;
  EXPECT_THAT(state_names(*SelfAttention(SelfAttentionOptions(4))),
              ElementsAre("query.weight", "query.bias", "key.weight", "key.bias", "value.weight",
                          "value.bias"));
  EXPECT_THAT(state_names(*SelfAttention(SelfAttentionOptions(4).bias(false))),
              ElementsAre("query.weight", "key.weight", "value.weight"));
}

TEST(SelfAttention, CloneAndSaveLoadRoundTrip) {
  const auto options = SelfAttentionOptions(4).qk_dim(2).v_dim(3).scale(kUnscaled);
  const auto x = torch::randn({2, 3, 4});
  expect_clone_and_save_load_work(
      SelfAttention(options), SelfAttention(options),
      [&](const SelfAttention& module) { return self_attend(module, x); });
}

TEST(SelfAttention, SupportsFloat64) {
  SelfAttention attention(SelfAttentionOptions(4));
  attention->to(torch::kDouble);
  const auto y = self_attend(attention, torch::randn({3, 4}, torch::kDouble), {.causal = true});
  EXPECT_EQ(y.scalar_type(), torch::kDouble);
}

TEST(SelfAttention, GradientsEqualFiniteDifferences) {
  SelfAttention attention(SelfAttentionOptions(3).qk_dim(2).v_dim(2));
  attention->to(torch::kDouble);
  auto leaves = attention->parameters();
  leaves.push_back(torch::randn({2, 3, 3}, torch::kDouble).requires_grad_());
  EXPECT_TRUE(gradients_match(
      [&] { return self_attend(attention, leaves.back(), {.causal = true}); }, leaves));
}

TEST(SelfAttention, TraceGeneralizesToOtherSizes) {
  SelfAttention attention(SelfAttentionOptions(4).v_dim(3));
  freeze(*attention);
  const auto run = [&](const Tensors& x) { return self_attend(attention, x[0], {.causal = true}); };
  const auto traced = trace(run, {torch::randn({2, 3, 4})});
  for (const auto& x : {torch::randn({1, 5, 4}), torch::randn({3, 1, 4})}) {
    EXPECT_TRUE(close(traced({x}), run({x}), 1e-6)) << x.sizes();
  }
}

TEST(SelfAttention, PrettyPrintShowsOptions) {
  EXPECT_THAT(printed(*SelfAttention(SelfAttentionOptions(4).v_dim(3).bias(false))),
              testing::StartsWith("attend::SelfAttention(embed_dim=4, qk_dim=4, v_dim=3, "
                                  "bias=false)"));
  EXPECT_THAT(printed(*SelfAttention(SelfAttentionOptions(4).scale(0.5))),
              testing::HasSubstr("bias=true, scale=0.5)"));
}

TEST(SelfAttention, AverageWeightsThrows) {
  SelfAttention attention(SelfAttentionOptions(4));
  const AttentionArgs args{.need_weights = true, .average_attn_weights = true};
  EXPECT_THAT(
      [&] {
        attention->forward(torch::zeros({3, 5, 4}), args);
      },
      throws<c10::ValueError>(
          "average_attn_weights must be false: SelfAttention has only one head"));
}

TEST(SelfAttention, ErrorMessagesNameTheValues) {
  SelfAttention attention(SelfAttentionOptions(4));
  EXPECT_THAT(
      [&] {
        attention->forward(torch::zeros({2, 3, 5}));
      },
      throws<c10::ValueError>("SelfAttention expects (B, T, E) or (T, E) with E = 4, found "
                              "[2, 3, 5]"));
  EXPECT_THAT([&] { attention->forward(torch::zeros({4})); }, throws<c10::ValueError>("found [4]"));
  EXPECT_THAT([] { SelfAttention(SelfAttentionOptions(0)); },
              throws<c10::ValueError>("embed_dim (0) must be positive"));
  EXPECT_THAT([] { SelfAttention(SelfAttentionOptions(4).qk_dim(-1)); },
              throws<c10::ValueError>("qk_dim (-1) must be positive"));
  EXPECT_THAT([] { SelfAttention(SelfAttentionOptions(4).v_dim(0)); },
              throws<c10::ValueError>("v_dim (0) must be positive"));
  EXPECT_THAT([] { SelfAttention(SelfAttentionOptions(4).scale(NAN)); },
              throws<c10::ValueError>("scale (nan) must be finite"));
}

}  // namespace
}  // namespace attend
