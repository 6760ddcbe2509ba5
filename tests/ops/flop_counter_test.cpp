#include "attend/ops/flop_counter.h"

#include "attend/ops/attention.h"
#include "support/seed.h"

#include <gtest/gtest.h>
#include <torch/nn/functional/linear.h>

#include <memory>
#include <thread>

namespace attend {
namespace {

template <typename Compute>
int64_t flops_of(const Compute& compute) {
  const FlopCounter counter;
  compute();
  return counter.flops();
}

TEST(FlopCounter, CountsTwoPerMultiplyAdd) {
  EXPECT_EQ(flops_of([] { torch::mm(torch::ones({2, 3}), torch::ones({3, 5})); }), 2 * 2 * 3 * 5);
  EXPECT_EQ(flops_of([] {
              torch::matmul(torch::ones({7, 2, 3}), torch::ones({7, 3, 5}));
            }),
            2 * 7 * 2 * 3 * 5);
  EXPECT_EQ(flops_of([] { torch::mv(torch::ones({2, 3}), torch::ones({3})); }), 2 * 2 * 3);
  EXPECT_EQ(flops_of([] { torch::dot(torch::ones({3}), torch::ones({3})); }), 2 * 3);
  EXPECT_EQ(flops_of([] {
              torch::baddbmm(torch::ones({1}), torch::ones({7, 2, 3}), torch::ones({7, 3, 5}));
            }),
            2 * 7 * 2 * 3 * 5);
}

TEST(FlopCounter, CountsLinearWithAndWithoutBias) {
  const auto linear = torch::nn::functional::linear;
  const auto x = torch::ones({4, 6, 3});
  EXPECT_EQ(flops_of([&] { linear(x, torch::ones({5, 3}), {}); }), 2 * 4 * 6 * 3 * 5);
  EXPECT_EQ(flops_of([&] { linear(x, torch::ones({5, 3}), torch::ones({5})); }), 2 * 4 * 6 * 3 * 5);
}

TEST(FlopCounter, CountsFusedAndExplicitAttentionAlike) {
  const FixedSeed seed;
  const auto query = torch::randn({2, 4, 5, 3});
  const auto key = torch::randn({2, 2, 7, 3});
  const auto value = torch::randn({2, 2, 7, 6});
  const int64_t expected = 2 * (2 * 4) * (5 * 7) * (3 + 6);
  EXPECT_EQ(flops_of([&] { dot_product_attention(query, key, value); }), expected);
  EXPECT_EQ(flops_of([&] { dot_product_attention(query, key, value, {.need_weights = true}); }),
            expected);
}

TEST(FlopCounter, CountsForwardOnceInGradMode) {
  const auto weight = torch::ones({3, 5}, torch::requires_grad());
  EXPECT_EQ(flops_of([&] { torch::matmul(torch::ones({2, 3}), weight); }), 2 * 2 * 3 * 5);
}

TEST(FlopCounter, IgnoresElementwiseOperations) {
  EXPECT_EQ(flops_of([] { torch::softmax(torch::ones({9, 9}).exp() * 2, -1); }), 0);
}

TEST(FlopCounter, NestsAndStopsAtScopeExit) {
  const auto multiply = [] { torch::mm(torch::ones({2, 2}), torch::ones({2, 2})); };
  FlopCounter outer;
  multiply();
  {
    const FlopCounter inner;
    multiply();
    EXPECT_EQ(inner.flops(), 16);
  }
  multiply();
  EXPECT_EQ(outer.flops(), 48);
}

TEST(FlopCounter, CountersMayEndInAnyOrder) {
  const auto multiply = [] { torch::mm(torch::ones({2, 2}), torch::ones({2, 2})); };
  auto outer = std::make_unique<FlopCounter>();
  auto inner = std::make_unique<FlopCounter>();
  outer.reset();
  multiply();
  EXPECT_EQ(inner->flops(), 16);
  inner.reset();
  multiply();  // must not access the destroyed counters
  const FlopCounter later;
  multiply();
  EXPECT_EQ(later.flops(), 16);
}

TEST(FlopCounter, MayEndOnAnotherThread) {
  const auto multiply = [] { torch::mm(torch::ones({2, 2}), torch::ones({2, 2})); };
  auto counter = std::make_unique<FlopCounter>();
  std::thread([&] { counter.reset(); }).join();
  multiply();
  const FlopCounter later;
  multiply();
  EXPECT_EQ(later.flops(), 16);
}

TEST(FlopCounter, ContinuesAfterAnException) {
  const FlopCounter counter;
  EXPECT_ANY_THROW(torch::mm(torch::ones({2, 3}), torch::ones({4, 5})));
  const auto before = counter.flops();
  torch::mm(torch::ones({2, 2}), torch::ones({2, 2}));
  EXPECT_EQ(counter.flops() - before, 16);
}

}  // namespace
}  // namespace attend
