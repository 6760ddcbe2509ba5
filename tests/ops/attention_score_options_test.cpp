#include "attend/ops/attention.h"
#include "support/attention_cases.h"
#include "support/close.h"

#include <cmath>

namespace attend {
namespace {

TEST(SoftCap, BoundsTheScores) {
  const auto q = torch::full({1, 1, 1, 1}, 100.0, torch::kDouble);
  const auto k = torch::tensor({1.0, 0.0, -1.0}, torch::kDouble).view({1, 1, 3, 1});
  const AttentionArgs args{.need_weights = true};
  const auto weights = attend::dot_product_attention(q, k, k, args, {.soft_cap = 2.0}).weights;
  const auto expected = torch::softmax(torch::tensor({2.0, 0.0, -2.0}, torch::kDouble), 0);
  EXPECT_TRUE(close(weights.flatten(), expected, 1e-12));
}

TEST(SoftCap, AppliesBeforeTheMask) {
  const auto x = torch::randn({1, 1, 3, 4}, torch::kDouble);
  const AttentionArgs args{.mask = torch::tensor({0.0, -50.0, 0.0}, torch::kDouble),
                           .need_weights = true};
  const auto weights = attend::dot_product_attention(x, x, x, args, {.soft_cap = 1.0}).weights;
  EXPECT_LT(weights.select(-1, 1).max().item<double>(), 1e-19);
}

TEST(SoftCap, LargeCapHasNoEffect) {
  const auto call = draw_call({2, 4, 2, 3, 5});
  auto capped = call;
  capped.options.soft_cap = 1e6;
  EXPECT_TRUE(close(capped.run(false).output, call.run(false).output, 1e-9));
}

TEST(AttentionSinkScores, TakePartOfTheSoftmax) {
  // Two keys with score 0 and a sink with score log 2: softmax gives 1/4, 1/4 and 1/2.
  const auto x = torch::zeros({1, 1, 2, 4}, torch::kDouble);
  const auto ones = torch::ones({1, 1, 2, 4}, torch::kDouble);
  const ScoreOptions options{.sinks = torch::full({1}, std::log(2.0), torch::kDouble)};
  const auto [output, weights] =
      attend::dot_product_attention(x, x, ones, {.need_weights = true}, options);
  EXPECT_TRUE(close(weights, torch::full({1, 1, 2, 2}, 0.25), 1e-15));
  EXPECT_TRUE(close(output, torch::full({1, 1, 2, 4}, 0.5), 1e-15));
}

TEST(AttentionSinkScores, ApplyPerHead) {
  auto call = draw_call({1, 4, 2, 3, 5});
  const auto plain = call.run(false).output;
  call.options.sinks = torch::tensor({-1e9, 1e9, -1e9, 1e9}, torch::kDouble);
  const auto output = call.run(false).output;
  for (const int64_t head : {0, 2}) EXPECT_TRUE(close(output[0][head], plain[0][head], 1e-12));
  for (const int64_t head : {1, 3}) {
    EXPECT_TRUE(close(output[0][head], torch::zeros({3, 5}), 0.0));
  }
}

TEST(AttentionSinkScores, AcceptBroadcastShape) {
  auto call = draw_call({2, 2, 2, 3, 5});
  call.options.sinks = torch::randn({2}, torch::kDouble);
  const auto flat = call.run(false).output;
  call.options.sinks = call.options.sinks.view({2, 1, 1});
  EXPECT_TRUE(close(call.run(false).output, flat, 0.0));
}

TEST(AttentionSinkScores, OutputIsZeroWithoutKeys) {
  auto call = draw_call({2, 2, 2, 3, 0});
  call.options.sinks = torch::randn({2}, torch::kDouble);
  EXPECT_TRUE(close(call.run(false).output, torch::zeros({2, 2, 3, 5}), 0.0));
}

}  // namespace
}  // namespace attend
