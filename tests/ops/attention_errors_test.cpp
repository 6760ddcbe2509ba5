#include "attend/ops/attention.h"
#include "support/throws.h"

namespace attend {
namespace {

torch::Tensor sized(at::IntArrayRef sizes, torch::ScalarType dtype = torch::kFloat) {
  return torch::zeros(sizes, dtype);
}

/// Returns a function that calls dot_product_attention.
auto attention_call(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor mask = {}) {
  return [=] { attend::dot_product_attention(q, k, v, {.mask = mask}); };
}

TEST(AttentionErrors, TooFewDimensionsThrow) {
  EXPECT_THAT(
      attention_call(sized({4}), sized({3, 4}), sized({3, 4})),
      throws<c10::ValueError>("attention needs (..., length, head_dim), found query [4], key "
                              "[3, 4] and value [3, 4]"));
}

TEST(AttentionErrors, DifferentWidthsThrow) {
  EXPECT_THAT(attention_call(sized({2, 4}), sized({3, 5}), sized({3, 4})),
              throws<c10::ValueError>("query width (4) must equal key width (5)"));
}

TEST(AttentionErrors, DifferentKeyAndValueLengthsThrow) {
  EXPECT_THAT(attention_call(sized({2, 4}), sized({3, 4}), sized({5, 4})),
              throws<c10::ValueError>("key length (3) must equal value length (5)"));
}

TEST(AttentionErrors, DifferentDtypesThrow) {
  const auto x = sized({2, 4});
  EXPECT_THAT(
      attention_call(x, x, sized({2, 4}, torch::kHalf)),
      throws<c10::TypeError>(
          "query, key and value must have the same float dtype, found Float, Float and Half"));
  EXPECT_THAT(attention_call(x, sized({2, 4}, torch::kDouble), x),
              throws<c10::TypeError>("found Float, Double and Float"));
}

TEST(AttentionErrors, IntegerDtypeThrows) {
  const auto x = sized({2, 4}, torch::kLong);
  EXPECT_THAT(attention_call(x, x, x), throws<c10::TypeError>("found Long, Long and Long"));
}

TEST(AttentionErrors, DifferentBatchOrHeadsThrow) {
  EXPECT_THAT(attention_call(sized({2, 3, 4}), sized({3, 3, 4}), sized({3, 3, 4})),
              throws<c10::ValueError>("query [2, 3, 4], key [3, 3, 4] and value [3, 3, 4] must "
                                      "have the same batch size and number of heads"));
  EXPECT_THAT(attention_call(sized({2, 3, 4}), sized({2, 3, 4}), sized({5, 3, 4})),
              throws<c10::ValueError>("value [5, 3, 4] must have the same batch size"));
}

TEST(AttentionErrors, IntegerMaskThrows) {
  const auto x = sized({2, 4});
  EXPECT_THAT(
      attention_call(x, x, x, sized({2, 2}, torch::kLong)),
      throws<c10::TypeError>(
          "mask must be bool (true = may attend) or float (added to the scores), found Long"));
}

TEST(AttentionErrors, MaskThatDoesNotBroadcastThrows) {
  const auto x = sized({2, 3, 4, 5});
  EXPECT_THAT(attention_call(x, x, x, sized({4, 3}, torch::kBool)),
              throws<c10::ValueError>("mask [4, 3] must broadcast to the scores [2, 3, 4, 4]"));
  // A mask with more dimensions than the scores is an error.
  EXPECT_THAT(
      attention_call(x, x, x, sized({7, 2, 3, 4, 4}, torch::kBool)),
      throws<c10::ValueError>("mask [7, 2, 3, 4, 4] must broadcast to the scores [2, 3, 4, 4]"));
}

}  // namespace
}  // namespace attend
