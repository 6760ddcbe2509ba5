#include "attend/ops/fast_kernels.h"

#include "attend/ops/attention.h"
#include "attend/ops/linear.h"
#include "support/kernels.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>
#include <thread>

namespace attend {
namespace {

bool uses_kernel() {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({1, 8});
  const auto weight = torch::randn({4, 8});
  return operators_of([&] { apply_linear(x, weight); }).count("attend::float_product") == 1;
}

bool uses_attention_kernel() {
  const auto x = torch::randn({1, 2, 32, 16});
  return operators_of([&] { dot_product_attention(x, x, x); }).count("attend::short_attention") ==
         1;
}

TEST(FastKernels, AreEnabledUnlessTheEnvironmentVariableIs0) {
  const auto* fast = std::getenv("ATTEND_FAST");
  EXPECT_EQ(fast_kernels_are_enabled(), fast == nullptr || std::string_view(fast) != "0");
}

TEST(NoFastKernelsGuard, ConcernsAllKernelsOfItsThreadUntilTheOuterGuardEnds) {
  const bool enabled = fast_kernels_are_enabled();
  {
    const NoFastKernelsGuard guard;
    { const NoFastKernelsGuard nested; }
    EXPECT_FALSE(fast_kernels_are_enabled());
    EXPECT_FALSE(uses_kernel());
    EXPECT_FALSE(uses_attention_kernel());
    std::thread([&] { EXPECT_EQ(uses_attention_kernel(), enabled); }).join();
  }
  EXPECT_EQ(fast_kernels_are_enabled(), enabled);
  EXPECT_EQ(uses_kernel(), enabled);
  EXPECT_EQ(uses_attention_kernel(), enabled);
}

TEST(NoInferenceKernelsGuard, ConcernsItsThreadUntilTheOuterGuardEnds) {
  const bool enabled = fast_kernels_are_enabled();
  EXPECT_EQ(uses_kernel(), enabled);
  {
    const NoInferenceKernelsGuard guard;
    { const NoInferenceKernelsGuard nested; }
    EXPECT_FALSE(uses_kernel());
    std::thread([&] { EXPECT_EQ(uses_kernel(), enabled); }).join();
  }
  EXPECT_EQ(uses_kernel(), enabled);
}

}  // namespace
}  // namespace attend
