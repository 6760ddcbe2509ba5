#include "attend/ops/fast_kernels.h"
#include "attend/ops/flop_counter.h"
#include "ops/autocast.h"
#include "ops/decoding_step.h"
#include "support/kernels.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace attend {
namespace {

struct AttendOneQuery : FixedSeed, testing::Test {
  void SetUp() override {
    if (!fast_kernels_are_enabled()) GTEST_SKIP() << "ATTEND_FAST is 0";
  }
  torch::Tensor query = torch::randn({2, 4, 1, 8});
  torch::Tensor key = torch::randn({2, 2, 5, 8});
  torch::Tensor value = torch::randn({2, 2, 5, 8});
};

TEST_F(AttendOneQuery, EqualsLibTorchForRandomShapesAndStrides) {
  seed_afresh();
  for (int i = 0; i < 60; ++i) {
    const auto batch = draw(1, 3), groups = draw(1, 3), heads = groups * draw(1, 3);
    const auto keys = draw(1, 300), width = draw(1, 70);
    const auto random = [&](int64_t count, int64_t length) {
      switch (draw(0, 2)) {
        case 0:
          return torch::randn({batch, length, count, width}).transpose(1, 2);
        case 1:
          return torch::randn({batch, count, length + 4, width + 2})
              .slice(2, 1, length + 1)
              .slice(3, 1, width + 1);
        default:
          return torch::randn({batch, count, length, width});
      }
    };
    const auto q = random(heads, 1), k = random(groups, keys), v = random(groups, keys);
    const auto scale = draw(0, 1) == 1 ? std::make_optional(0.3) : std::nullopt;
    SCOPED_TRACE(testing::Message() << q.sizes() << " and " << k.sizes());
    const auto y = one_query_attention(q, k, v, scale);
    ASSERT_TRUE(y.defined());
    EXPECT_TRUE(equals_in_float64(y, {q, k, v},
                                  [&](const Tensors& in) {
                                    return at::scaled_dot_product_attention(
                                        in[0], in[1], in[2], {}, 0.0,
                                        /*is_causal=*/false, scale, /*enable_gqa=*/true);
                                  },
                                  {.terms = std::max(keys, width)}));
  }
}

TEST_F(AttendOneQuery, CountsTheOperationsOfBothProducts) {
  const FlopCounter counter;
  one_query_attention(query, key, value, {});
  EXPECT_EQ(counter.flops(), 2 * 2 * 2 * 4 * 5 * 8);
}

TEST_F(AttendOneQuery, LeavesOtherCallsToLibTorch) {
  const auto double_type = torch::kDouble;
  const auto is_left = [](const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v) {
    return !one_query_attention(q, k, v, {}).defined();
  };
  EXPECT_FALSE(is_left(query, key, value));
  EXPECT_TRUE(is_left(query.to(double_type), key.to(double_type), value.to(double_type)));
  EXPECT_TRUE(is_left(torch::randn({2, 4, 2, 8}), key, value));
  EXPECT_TRUE(is_left(query[0], key[0], value[0]));
  EXPECT_TRUE(is_left(query, key, value.slice(3, 0, 4)));
  EXPECT_TRUE(is_left(query, key.slice(2, 0, 0), value.slice(2, 0, 0)));
  EXPECT_TRUE(is_left(query.slice(0, 0, 0), key.slice(0, 0, 0), value.slice(0, 0, 0)));
  EXPECT_TRUE(is_left(query.slice(0, 0, 1), key, value));
  EXPECT_TRUE(is_left(query, key.transpose(2, 3).contiguous().transpose(2, 3), value));
  EXPECT_TRUE(is_left(query, key.clone().requires_grad_(), value));
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  EXPECT_TRUE(is_left(query, key, value));
}

}  // namespace
}  // namespace attend
