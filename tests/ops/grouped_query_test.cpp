// Fewer key-value heads than query heads.
#include "attend/ops/attention.h"
#include "support/attention_cases.h"
#include "support/close.h"
#include "support/throws.h"

namespace attend {
namespace {

TEST(GroupedQueryAttention, EqualsAttentionWithRepeatedKeysAndValues) {
  torch::manual_seed(1);
  for (const int64_t groups : {1, 2, 3, 6}) {
    const auto call = draw_call({2, 6, groups, 4, 5});
    auto repeated = call;
    repeated.key = call.key.repeat_interleave(6 / groups, 1);
    repeated.value = call.value.repeat_interleave(6 / groups, 1);
    for (const bool need_weights : {false, true}) {
      EXPECT_TRUE(close(call.run(need_weights).output, repeated.run(need_weights).output, 1e-14));
    }
    EXPECT_EQ(call.run(true).weights.sizes(), at::IntArrayRef({2, 6, 4, 5}));
  }
}

TEST(GroupedQueryAttention, ConsecutiveQueryHeadsShareAKeyValueHead) {
  const auto zeros = torch::zeros({1, 4, 1, 2});
  const auto value = torch::tensor({1.0, 2.0}).view({1, 2, 1, 1}).expand({1, 2, 1, 2});
  const auto output = attend::dot_product_attention(zeros, zeros.narrow(1, 0, 2), value).output;
  EXPECT_TRUE(close(output.select(-1, 0).flatten(), torch::tensor({1.0, 1.0, 2.0, 2.0}), 0.0));
}

TEST(GroupedQueryAttention, WorksWithoutBatchDimension) {
  const auto call = draw_call({1, 4, 2, 3, 5});
  const auto alone =
      attend::dot_product_attention(call.query[0], call.key[0], call.value[0], {.causal = true});
  const auto batched =
      attend::dot_product_attention(call.query, call.key, call.value, {.causal = true});
  EXPECT_TRUE(close(alone.output, batched.output[0], 1e-14));
}

TEST(GroupedQueryAttention, KeysAndValuesBroadcastOverTheBatch) {
  const auto call = draw_call({3, 4, 2, 3, 5});
  const auto key = call.key.narrow(0, 0, 1);
  const auto value = call.value.narrow(0, 0, 1);
  for (const bool need_weights : {false, true}) {
    const AttentionArgs args{.need_weights = need_weights};
    const auto shared = attend::dot_product_attention(call.query, key, value, args);
    const auto expanded = attend::dot_product_attention(call.query, key.expand({3, 2, 5, 5}),
                                                        value.expand({3, 2, 5, 5}), args);
    EXPECT_TRUE(close(shared.output, expanded.output, 1e-14));
  }
}

TEST(GroupedQueryAttention, QueriesBroadcastOverABatchOfKeysWithMask) {
  const auto call = draw_call({3, 4, 2, 3, 5});
  const auto query = call.query.narrow(0, 0, 1);
  const auto mask = torch::rand({3, 1, 3, 5}) > 0.4;
  for (const bool need_weights : {false, true}) {
    const AttentionArgs args{.mask = mask, .need_weights = need_weights};
    const auto shared = attend::dot_product_attention(query, call.key, call.value, args);
    const auto expanded =
        attend::dot_product_attention(query.expand({3, 4, 3, 5}), call.key, call.value, args);
    EXPECT_TRUE(close(shared.output, expanded.output, 1e-14));
  }
}

TEST(GroupedQueryAttention, IndivisibleHeadsThrow) {
  const auto query = torch::zeros({1, 4, 2, 3});
  const auto key = torch::zeros({1, 3, 2, 3});
  EXPECT_THAT(
      [&] { attend::dot_product_attention(query, key, key); },
      throws<c10::ValueError>("query [1, 4, 2, 3], key [1, 3, 2, 3] and value [1, 3, 2, 3] "
                              "must have the same batch size and number of heads; the number of "
                              "query heads may be a multiple of the number of key heads"));
  EXPECT_THAT(
      [&] {
        attend::dot_product_attention(query, query, torch::zeros({1, 2, 2, 3}));
      },
      throws<c10::ValueError>("value [1, 2, 2, 3] must have"));
  EXPECT_THAT([&] { attend::dot_product_attention(query, query[0], query[0]); },
              throws<c10::ValueError>("key [4, 2, 3] and value [4, 2, 3] must have"));
}

}  // namespace
}  // namespace attend
