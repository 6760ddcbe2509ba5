// These tests check for each kind of call whether attention uses LibTorch's fused kernel and, if
// so, whether it passes a mask to the kernel.
#include "attend/ops/attention.h"
#include "support/attention_cases.h"
#include "support/kernels.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

std::vector<FusedCall> fused_calls_of(const AttentionSizes& sizes, const AttentionArgs& args,
                                      const ScoreOptions& options = {}) {
  auto call = draw_call(sizes);
  call.args = args;
  call.options = options;
  return fused_calls([&] { call.run(/*need_weights=*/false); });
}

TEST(AttentionKernel, CausalWithEqualLengthsUsesIsCausal) {
  const auto calls = fused_calls_of({2, 2, 2, 5, 5}, {.causal = true});
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_TRUE(calls[0].causal);
  EXPECT_FALSE(calls[0].masked);
}

TEST(AttentionKernel, CausalSingleQueryNeedsNoMask) {
  const auto calls = fused_calls_of({2, 2, 2, 1, 5}, {.causal = true});
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_FALSE(calls[0].causal);
  EXPECT_FALSE(calls[0].masked);
}

TEST(AttentionKernel, CausalWithMoreKeysPassesAMask) {
  const auto calls = fused_calls_of({2, 2, 2, 3, 5}, {.causal = true});
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_FALSE(calls[0].causal);
  EXPECT_TRUE(calls[0].masked);
}

TEST(AttentionKernel, SupportsGroupedAndMultiQueryAttention) {
  for (const int64_t groups : {1, 2, 4}) {
    const auto calls = fused_calls_of({2, 4, groups, 5, 5}, {.causal = true});
    ASSERT_EQ(calls.size(), 1U) << groups;
    EXPECT_TRUE(calls[0].causal);
  }
}

TEST(AttentionKernel, SupportsMasksOfZeroToFourDimensions) {
  for (const auto& mask : {torch::tensor(true), torch::ones({5}) > 0, torch::ones({5, 5}) > 0,
                           torch::ones({1, 5, 5}) > 0, torch::ones({2, 2, 5, 5}) > 0}) {
    const auto calls = fused_calls_of({2, 2, 2, 5, 5}, {.mask = mask});
    ASSERT_EQ(calls.size(), 1U) << mask.sizes();
    EXPECT_TRUE(calls[0].masked);
  }
}

TEST(AttentionKernel, IsNotUsedWithSoftCapOrSinks) {
  EXPECT_TRUE(fused_calls_of({2, 2, 2, 5, 5}, {}, {.soft_cap = 1.0}).empty());
  EXPECT_TRUE(fused_calls_of({2, 2, 2, 5, 5}, {}, {.sinks = torch::zeros({2})}).empty());
}

}  // namespace
}  // namespace attend
