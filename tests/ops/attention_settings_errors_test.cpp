#include "attend/ops/attention.h"
#include "support/throws.h"

namespace attend {
namespace {

/// Returns a function that calls attention with query (2, 4, 3, 5) and 6 keys.
auto attention_call(AttentionArgs args, ScoreOptions options = {}) {
  return [=] {
    const auto query = torch::zeros({2, 4, 3, 5});
    const auto key = torch::zeros({2, 4, 6, 5});
    attend::dot_product_attention(query, key, key, args, options);
  };
}

torch::Tensor integers(at::IntArrayRef sizes) {
  return torch::zeros(sizes, torch::kLong);
}

TEST(AttentionArgsErrors, WrongKeyMaskShapeThrows) {
  EXPECT_THAT(
      attention_call({.key_mask = torch::ones({2, 3}, torch::kBool)}),
      throws<c10::ValueError>("key_mask [2, 3] must be (6) or (2, 6), one entry per token"));
  EXPECT_THAT(attention_call({.key_mask = torch::ones({3, 6}, torch::kBool)}),
              throws<c10::ValueError>("key_mask [3, 6] must be (6) or (2, 6)"));
  EXPECT_THAT(attention_call({.key_mask = torch::ones({2, 1, 1, 6}, torch::kBool)}),
              throws<c10::ValueError>("key_mask [2, 1, 1, 6] must be (6) or (2, 6)"));
  EXPECT_THAT(attention_call({.key_mask = torch::tensor(true)}),
              throws<c10::ValueError>("key_mask [] must be (6) or (2, 6)"));
}

TEST(AttentionArgsErrors, WrongKeyMaskDtypeThrows) {
  EXPECT_THAT(
      attention_call({.key_mask = integers({2, 6})}),
      throws<c10::TypeError>("key_mask must be bool (true = may be attended to), found Long"));
}

TEST(AttentionArgsErrors, WrongKeyMaskShapeWithoutBatchThrows) {
  const auto x = torch::zeros({3, 5});
  EXPECT_THAT(
      [&] {
        attend::dot_product_attention(x, x, x, {.key_mask = torch::ones({1, 3}) > 0});
      },
      throws<c10::ValueError>("key_mask [1, 3] must be (3), one entry per token"));
}

TEST(AttentionArgsErrors, WrongSegmentsShapeThrows) {
  EXPECT_THAT(attention_call({.segments = integers({2, 4})}),
              throws<c10::ValueError>("segments [2, 4] must be (3) or (2, 3)"));
  EXPECT_THAT(attention_call({.segments = integers({2, 3})}),
              throws<c10::ValueError>("key_segments [2, 3] must be (6) or (2, 6)"));
  EXPECT_THAT(attention_call({.key_segments = integers({2, 6})}),
              throws<c10::ValueError>("key_segments is set but segments is not"));
}

TEST(AttentionArgsErrors, WrongPositionsShapeThrows) {
  EXPECT_THAT(attention_call({.positions = integers({4})}),
              throws<c10::ValueError>("positions [4] must be (3) or (2, 3)"));
  EXPECT_THAT(attention_call({.positions = integers({3})}),
              throws<c10::ValueError>("key_positions [3] must be (6) or (2, 6)"));
  EXPECT_THAT(attention_call({.key_positions = integers({6})}),
              throws<c10::ValueError>("key_positions is set but positions is not"));
}

TEST(AttentionArgsErrors, WrongSegmentsOrPositionsDtypeThrows) {
  EXPECT_THAT(attention_call({.segments = torch::zeros({3}), .key_segments = integers({6})}),
              throws<c10::TypeError>("segments must be integers, found Float"));
  EXPECT_THAT(attention_call({.segments = integers({3}), .key_segments = torch::zeros({6}) > 0}),
              throws<c10::TypeError>("key_segments must be integers, found Bool"));
  EXPECT_THAT(attention_call({.positions = torch::zeros({3}), .key_positions = integers({6})}),
              throws<c10::TypeError>("positions must be integers, found Float"));
  EXPECT_THAT(attention_call({.positions = integers({3}), .key_positions = torch::zeros({6})}),
              throws<c10::TypeError>("key_positions must be integers, found Float"));
}

TEST(AttentionArgsErrors, NegativeSlidingWindowThrows) {
  EXPECT_THAT(attention_call({.sliding_window = -1}),
              throws<c10::ValueError>("sliding_window (-1) must not be negative"));
}

TEST(AttentionArgsErrors, AverageWeightsWithoutHeadsThrows) {
  const auto x = torch::zeros({3, 5});
  EXPECT_THAT(
      [&] {
        attend::dot_product_attention(x, x, x,
                                      {.need_weights = true, .average_attn_weights = true});
      },
      throws<c10::ValueError>(
          "average_attn_weights needs a query (..., H, T, D) with heads, found [3, 5]"));
}

TEST(ScoreOptionsErrors, ValuesOutOfRangeThrow) {
  EXPECT_THAT(attention_call({}, {.dropout = 1.0}),
              throws<c10::ValueError>("dropout (1) must be in [0, 1)"));
  EXPECT_THAT(attention_call({}, {.dropout = -0.5}),
              throws<c10::ValueError>("dropout (-0.5) must be"));
  EXPECT_THAT(attention_call({}, {.soft_cap = -2.0}),
              throws<c10::ValueError>("soft_cap (-2) must not be negative"));
}

TEST(ScoreOptionsErrors, WrongSinksShapeOrDtypeThrows) {
  for (const auto& sinks : {torch::zeros({3}), torch::zeros({1, 4}), torch::zeros({4, 2})}) {
    EXPECT_THAT(attention_call({}, {.sinks = sinks}),
                throws<c10::ValueError>("must have one entry per head of query "
                                        "[2, 4, 3, 5]"));
  }
  EXPECT_THAT(attention_call({}, {.sinks = torch::tensor(1.0)}),
              throws<c10::ValueError>("sinks []"));
  EXPECT_THAT(attention_call({}, {.sinks = integers({4})}),
              throws<c10::TypeError>("sinks must be float, found Long"));
  const auto x = torch::zeros({3, 5});
  EXPECT_THAT([&] { attend::dot_product_attention(x, x, x, {}, {.sinks = torch::zeros({1})}); },
              throws<c10::ValueError>("sinks [1] must have one entry per head"));
}

}  // namespace
}  // namespace attend
