// Masks: padding, packed documents, positions, sliding windows.
#include "attend/ops/attention.h"
#include "support/attention_cases.h"
#include "support/close.h"
#include "support/seed.h"

namespace attend {
namespace {

/// Returns integers (T, S) for one head: 1 where query t attends to key s, 0 elsewhere.
torch::Tensor visible(int64_t queries, int64_t keys, AttentionArgs args) {
  args.need_weights = true;
  const auto q = torch::zeros({1, queries, 2});
  const auto k = torch::zeros({1, keys, 2});
  return (attend::dot_product_attention(q, k, k, args).weights[0] > 0).to(torch::kLong);
}

TEST(AttentionMask, KeyMaskHidesPadding) {
  const auto key_mask = torch::tensor({true, true, false});
  EXPECT_TRUE(
      torch::equal(visible(2, 3, {.key_mask = key_mask}), torch::tensor({{1, 1, 0}, {1, 1, 0}})));
}

TEST(AttentionMask, SegmentsRestrictAttentionToTheSameDocument) {
  const auto documents = torch::tensor({0, 0, 1, 1});
  EXPECT_TRUE(
      torch::equal(visible(4, 4, {.segments = documents, .causal = true}),
                   torch::tensor({{1, 0, 0, 0}, {1, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 1, 1}})));
  EXPECT_TRUE(torch::equal(
      visible(2, 3, {.segments = torch::tensor({7, 9}), .key_segments = torch::tensor({9, 7, 7})}),
      torch::tensor({{0, 1, 1}, {1, 0, 0}})));
}

TEST(AttentionMask, SlidingWindowIncludesTheQueryItself) {
  EXPECT_TRUE(torch::equal(visible(3, 3, {.causal = true, .sliding_window = 1}),
                           torch::eye(3, torch::kLong)));
  EXPECT_TRUE(
      torch::equal(visible(4, 4, {.causal = true, .sliding_window = 2}),
                   torch::tensor({{1, 0, 0, 0}, {1, 1, 0, 0}, {0, 1, 1, 0}, {0, 0, 1, 1}})));
}

TEST(AttentionMask, SlidingWindowIsBidirectionalUnlessCausal) {
  EXPECT_TRUE(torch::equal(visible(3, 3, {.sliding_window = 2}),
                           torch::tensor({{1, 1, 0}, {1, 1, 1}, {0, 1, 1}})));
}

TEST(AttentionMask, DefaultPositionsAlignAtTheLastKey) {
  EXPECT_TRUE(torch::equal(visible(2, 4, {.causal = true, .sliding_window = 2}),
                           torch::tensor({{0, 1, 1, 0}, {0, 0, 1, 1}})));
}

TEST(AttentionMask, PositionsDefineTheCausalOrder) {
  const AttentionArgs args{.positions = torch::tensor({5, 2}, torch::kByte),
                           .key_positions = torch::tensor({6, 2, 5, 1}, torch::kByte),
                           .causal = true};
  EXPECT_TRUE(torch::equal(visible(2, 4, args), torch::tensor({{0, 1, 1, 1}, {0, 1, 0, 1}})));
}

TEST(AttentionMask, PackedDocumentsDoNotAffectEachOther) {
  torch::manual_seed(4);
  const auto documents = torch::tensor({0, 0, 0, 1, 1});
  for (const bool need_weights : {false, true}) {
    for (const bool causal : {false, true}) {
      const AttentionArgs args{
          .segments = documents, .causal = causal, .need_weights = need_weights};
      const auto x = torch::randn({1, 2, 5, 4});
      auto other = x.clone();
      other.narrow(2, 3, 2).copy_(torch::randn({1, 2, 2, 4}) * 100);
      const auto before = attend::dot_product_attention(x, x, x, args).output;
      const auto after = attend::dot_product_attention(other, other, other, args).output;
      EXPECT_TRUE(torch::equal(before.narrow(2, 0, 3), after.narrow(2, 0, 3)));
      EXPECT_FALSE(torch::equal(before.narrow(2, 3, 2), after.narrow(2, 3, 2)));
    }
  }
}

TEST(AttentionMask, PackedDocumentEqualsTheDocumentAlone) {
  torch::manual_seed(5);
  const auto x = torch::randn({1, 2, 5, 4}, torch::kDouble);
  const auto packed = attend::dot_product_attention(
      x, x, x, {.segments = torch::tensor({0, 0, 0, 1, 1}), .causal = true});
  const auto second = x.narrow(2, 3, 2);
  const auto alone = attend::dot_product_attention(second, second, second, {.causal = true});
  EXPECT_TRUE(close(packed.output.narrow(2, 3, 2), alone.output, 1e-14));
}

struct FullyMaskedCase {
  const char* name;
  AttentionArgs args;
};

std::vector<FullyMaskedCase> fully_masked_cases() {
  const auto zeros = torch::zeros({2, 3}, torch::kLong);
  return {{"OnlyPadding", {.key_mask = torch::zeros({2, 3}, torch::kBool)}},
          {"NoSharedSegment", {.segments = zeros, .key_segments = zeros + 1}},
          {"AllKeysInTheFuture", {.positions = zeros, .key_positions = zeros + 1, .causal = true}},
          {"EmptySlidingWindow",
           {.positions = zeros, .key_positions = zeros + 3, .sliding_window = 3}}};
}

struct FullyMaskedAttention : testing::TestWithParam<FullyMaskedCase> {};
INSTANTIATE_TEST_SUITE_P(, FullyMaskedAttention, testing::ValuesIn(fully_masked_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(FullyMaskedAttention, OutputAndGradientsAreZero) {
  torch::manual_seed(6);
  const auto plain = ScoreOptions();
  const ScoreOptions rich{.soft_cap = 2.0, .sinks = torch::randn({4}).requires_grad_()};
  for (const auto& options : {plain, rich}) {
    for (const bool need_weights : {false, true}) {
      const auto q = torch::randn({2, 4, 3, 5}).requires_grad_();
      const auto k = torch::randn({2, 2, 3, 5}).requires_grad_();
      const auto v = torch::randn({2, 2, 3, 5}).requires_grad_();
      const AttentionCall call{q, k, v, GetParam().args, options};
      const auto [output, weights] = call.run(need_weights);
      EXPECT_TRUE(close(output, torch::zeros({2, 4, 3, 5}), 0.0));
      auto loss = (output * torch::randn_like(output)).sum();
      if (need_weights) {
        EXPECT_TRUE(close(weights, torch::zeros({2, 4, 3, 3}), 0.0));
        loss = loss + (weights * torch::randn_like(weights)).sum();
      }
      loss.backward();
      for (const auto& leaf : {q, k, v}) {
        EXPECT_TRUE(close(leaf.grad(), torch::zeros_like(leaf), 0.0));
      }
    }
  }
  EXPECT_TRUE(close(rich.sinks.grad(), torch::zeros({4}), 0.0));
}

}  // namespace
}  // namespace attend
