// Tests ScoreOptions::bias, and in which calls attention searches the mask for fully masked rows.
#include "attend/ops/attention.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <ATen/record_function.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>

namespace attend {
namespace {

thread_local int searches = 0;

/// Calls `run` and returns how often it searches for fully masked rows.
int count_searches(const std::function<void()>& run) {
  searches = 0;
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        if (std::string_view(function.name()) == "aten::any") ++searches;
        return nullptr;
      }));
  run();
  at::removeCallback(handle);
  return searches;
}

struct AttentionBias : FixedSeed, testing::Test {
  const torch::Tensor q = torch::randn({2, 4, 3, 5});
  const torch::Tensor k = torch::randn({2, 4, 6, 5});
  const torch::Tensor v = torch::randn({2, 4, 6, 5});
  const torch::Tensor bias = torch::randn({4, 3, 6});
};

TEST_F(AttentionBias, EqualsAFloatMask) {
  for (const bool need_weights : {false, true}) {
    const auto with_bias = attend::dot_product_attention(
        q, k, v, {.causal = true, .need_weights = need_weights}, {.bias = bias});
    const auto with_mask = attend::dot_product_attention(
        q, k, v, {.mask = bias.unsqueeze(0), .causal = true, .need_weights = need_weights});
    EXPECT_TRUE(close(with_bias.output, with_mask.output, 1e-6));
    if (!need_weights) continue;
    EXPECT_TRUE(close(with_bias.weights, with_mask.weights, 1e-6));
  }
}

TEST_F(AttentionBias, IsAddedToMasksOfAnyDtype) {
  const auto allowed = torch::tensor({false, true, true, false, true, true});
  const auto added = torch::randn({3, 6});
  const auto masked_bias = torch::where(allowed, bias, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(close(
      attend::dot_product_attention(q, k, v, {.mask = allowed}, {.bias = bias}).output,
      attend::dot_product_attention(q, k, v, {.mask = masked_bias.unsqueeze(0)}).output, 1e-6));
  EXPECT_TRUE(close(
      attend::dot_product_attention(q, k, v, {.mask = added}, {.bias = bias}).output,
      attend::dot_product_attention(q, k, v, {.mask = (added + bias).unsqueeze(0)}).output, 1e-6));
}

TEST_F(AttentionBias, LeavesFullyMaskedRowsZero) {
  auto mask = torch::ones({3, 6}, torch::kBool);
  mask[1].fill_(false);
  for (const auto& each : {mask, torch::zeros({3, 6}).masked_fill(mask.logical_not(), -INFINITY)}) {
    const auto learned = bias.clone().requires_grad_();
    const auto y = attend::dot_product_attention(q, k, v, {.mask = each}, {.bias = learned}).output;
    EXPECT_TRUE(close(y.select(2, 1), torch::zeros({2, 4, 5}), 0.0));
    y.square().sum().backward();
    EXPECT_TRUE(close(learned.grad().select(1, 1), torch::zeros({4, 6}), 0.0));
    EXPECT_TRUE((learned.grad().select(1, 0) != 0).all().item<bool>());
  }
}

TEST_F(AttentionBias, SumOfLowestHalfAndBiasIsFullyMasked) {
  auto mask = torch::zeros({3, 6}, torch::kHalf);
  mask[1].fill_(std::numeric_limits<c10::Half>::lowest());
  const auto y =
      attend::dot_product_attention(q.to(torch::kHalf), k.to(torch::kHalf), v.to(torch::kHalf),
                                    {.mask = mask}, {.bias = torch::full({3, 6}, -1000.0)})
          .output;
  EXPECT_TRUE(close(y.select(2, 1), torch::zeros({2, 4, 5}), 0.0));
  EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
}

TEST_F(AttentionBias, ShapeAndDtypeAreChecked) {
  EXPECT_THAT(
      [&] {
        attend::dot_product_attention(q, k, v, {}, {.bias = torch::zeros({3, 5})});
      },
      throws<c10::ValueError>("bias [3, 5] must broadcast to the scores [2, 4, 3, 6]"));
  EXPECT_THAT(
      [&] {
        attend::dot_product_attention(q, k, v, {}, {.bias = torch::zeros({3, 6}, torch::kLong)});
      },
      throws<c10::TypeError>("bias must be float, found Long"));
}

TEST(FullyMaskedRowsSearch, RunsOnlyIfTheMaskCanHaveSuchRows) {
  const auto x = torch::randn({2, 1, 3, 4});
  const auto longer = torch::randn({2, 1, 5, 4});
  const auto of_tokens = torch::tensor({{0, 0, 1}, {0, 1, 1}});
  const auto search = [&](const torch::Tensor& query, const torch::Tensor& key, AttentionArgs args,
                          const ScoreOptions& options = {}) {
    args.need_weights = true;  // disables the fused kernel, which applies causal masks itself
    return count_searches([&] { attend::dot_product_attention(query, key, key, args, options); });
  };
  EXPECT_EQ(search(x, x, {}), 0);
  EXPECT_EQ(search(x, x, {.causal = true}), 0);
  EXPECT_EQ(search(x, longer, {.causal = true}), 0);
  EXPECT_EQ(search(x, x, {.causal = true, .sliding_window = 2}), 0);
  EXPECT_EQ(search(x, longer, {.sliding_window = 1}), 0);
  EXPECT_EQ(search(x, x, {.segments = of_tokens, .causal = true}), 0);
  EXPECT_EQ(search(x, x, {.positions = of_tokens, .causal = true}), 0);
  EXPECT_EQ(search(x, x, {.causal = true}, {.bias = torch::zeros({3, 3})}), 0);

  EXPECT_EQ(search(longer, x, {.causal = true}), 1);
  EXPECT_EQ(search(longer, x, {.sliding_window = 1}), 1);
  EXPECT_EQ(search(x, x, {.mask = torch::ones({3, 3}, torch::kBool)}), 1);
  EXPECT_EQ(search(x, x, {.mask = torch::zeros({3, 3})}), 1);
  EXPECT_EQ(search(x, x, {.key_mask = torch::ones({2, 3}, torch::kBool)}), 1);
  EXPECT_EQ(search(x, x, {.segments = of_tokens, .key_segments = of_tokens}), 1);
  EXPECT_EQ(search(x, x, {.positions = of_tokens, .key_positions = of_tokens, .causal = true}), 1);
}

TEST(FullyMaskedRowsSearch, TraceAtEqualLengthsIsValidForFewerKeys) {
  const auto run = [](const Tensors& in) {
    return attend::dot_product_attention(in[0], in[1], in[1], {.causal = true}).output;
  };
  const auto traced = trace(run, {torch::randn({1, 1, 3, 4}), torch::randn({1, 1, 3, 4})});
  const auto q = torch::randn({1, 1, 5, 4}), k = torch::randn({1, 1, 2, 4});
  const auto y = traced({q, k});
  EXPECT_TRUE(close(y, run({q, k}), 1e-6));
  EXPECT_TRUE(close(y.narrow(2, 0, 3), torch::zeros({1, 1, 3, 4}), 0.0));
}

}  // namespace
}  // namespace attend
