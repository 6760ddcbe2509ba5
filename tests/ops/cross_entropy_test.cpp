#include "ops/cross_entropy.h"

#include "attend/ops/fast_kernels.h"
#include "support/close.h"
#include "support/instruction_sets.h"
#include "support/kernels.h"
#include "support/rounding.h"
#include "support/vmap.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/cuda.h>
#include <torch/nn/functional/loss.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace attend {
namespace {

constexpr int64_t kIgnoreIndex = -100;

struct CrossEntropy : InstructionSetTest {};

/// Reference in float64, with LibTorch's operators.
torch::Tensor expected_loss(const torch::Tensor& logits, const torch::Tensor& targets) {
  namespace F = torch::nn::functional;
  return F::cross_entropy(
      logits.to(torch::kDouble), targets,
      F::CrossEntropyFuncOptions().ignore_index(kIgnoreIndex).reduction(torch::kSum));
}

torch::Tensor gradient(const torch::Tensor& loss, const torch::Tensor& logits,
                       bool create_graph = false) {
  return torch::autograd::grad({loss}, {logits}, {}, /*retain_graph=*/{}, create_graph)[0];
}

TEST_P(CrossEntropy, EqualsLibTorchForRandomShapes) {
  seed_afresh();
  for (int i = 0; i < 100; ++i) {
    const auto rows = draw(1, 9);
    const auto choices = draw(1, i % 5 == 0 ? 3000 : 70);
    const auto type = std::array{torch::kFloat, torch::kBFloat16, torch::kHalf}[draw(0, 2)];
    const auto device = torch::cuda::is_available() && draw(0, 1) == 1 ? torch::kCUDA : torch::kCPU;
    SCOPED_TRACE(testing::Message() << rows << " x " << choices << " " << type << " " << device);
    const auto scale = draw(1, 20);
    const auto logits = (torch::randn({rows, choices}) * scale).to(device, type).requires_grad_();
    auto targets = torch::randint(choices, {rows}, torch::kLong);
    targets = targets.masked_fill(torch::rand({rows}) < 0.2, kIgnoreIndex).to(device);
    const auto loss = summed_cross_entropy(logits, targets, kIgnoreIndex);
    EXPECT_EQ(loss.scalar_type(), torch::kFloat);
    const auto found = gradient(loss * 3, logits);
    EXPECT_EQ(found.scalar_type(), type);
    EXPECT_TRUE(equals_in_float64(
        {loss, found}, {logits},
        [&](const Tensors& in) -> Tensors {
          const auto exact = in[0].detach().requires_grad_();
          const auto expected = expected_loss(exact, targets);
          return {expected, gradient(expected * 3, exact)};
        },
        // The loss of a row is the logarithm of a sum of at least 1, which may be near 0.
        {.dtype = torch::kFloat,
         .terms = choices,
         .largest_term = 3.0 * static_cast<double>(rows)}));
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(summed_cross_entropy(logits, targets, kIgnoreIndex).equal(loss));
  }
}

TEST_P(CrossEntropy, AcceptsLogitsThatAreNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto targets = torch::tensor({3, 2}, torch::kLong);
  for (const float value : {kInfinity, -kInfinity, std::nanf(""), 1e38F, -1e38F}) {
    SCOPED_TRACE(value);
    auto logits = torch::randn({2, 37});
    logits[0][36] = value;
    logits[1][1] = value;
    logits.requires_grad_();
    const auto loss = summed_cross_entropy(logits, targets, kIgnoreIndex);
    const auto expected = expected_loss(logits, targets).to(torch::kFloat);
    EXPECT_TRUE(torch::allclose(loss, expected, 1e-5, 1e-5, /*equal_nan=*/true));
    EXPECT_TRUE(torch::allclose(gradient(loss, logits), gradient(expected, logits), 1e-5, 1e-5,
                                /*equal_nan=*/true));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CrossEntropy,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         instruction_set_name);

TEST(CrossEntropyOfTargets, IsComputedByTheKernel) {
  const auto targets = torch::tensor({2}, torch::kLong);
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kDouble}) {
    const auto logits = torch::randn({1, 5}).to(type).requires_grad_();
    const auto operators =
        operators_of([&] { summed_cross_entropy(logits, targets, kIgnoreIndex).backward(); });
    const bool expected = type != torch::kDouble && fast_kernels_are_enabled();
    EXPECT_EQ(operators.count("attend::cross_entropy") == 1, expected) << type;
    EXPECT_EQ(operators.count("attend::cross_entropy_backward") == 1, expected) << type;
  }
}

TEST(CrossEntropyOfTargets, HasAPreciseGradientForAProbabilityNearOne) {
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const auto logits = torch::tensor({{8.0, 0.0}}).to(type).requires_grad_();
    const auto loss = summed_cross_entropy(logits, torch::tensor({0}, torch::kLong), kIgnoreIndex);
    const double expected = -1 / (1 + std::exp(8.0));  // p - 1
    EXPECT_NEAR(gradient(loss, logits)[0][0].item<double>(), expected, -expected / 256) << type;
  }
}

TEST(CrossEntropyOfTargets, ThrowsAsLibTorchIfATargetIsOutOfRange) {
  for (const int64_t wrong : {-1, 5}) {
    EXPECT_THROW(
        summed_cross_entropy(torch::randn({1, 5}), torch::tensor({wrong}), kIgnoreIndex).item(),
        c10::Error);
  }
}

struct DoubleBackwardOfCrossEntropy : testing::TestWithParam<torch::Dtype> {};

TEST_P(DoubleBackwardOfCrossEntropy, EqualsLibTorch) {
  seed_afresh();
  const auto logits = torch::randn({4, 9}).to(GetParam()).requires_grad_();
  const auto targets = torch::tensor(std::vector<int64_t>{1, 8, kIgnoreIndex, 0});
  const auto second = [](const torch::Tensor& loss, const torch::Tensor& x) {
    return gradient(gradient(loss.square(), x, /*create_graph=*/true).square().sum(), x);
  };
  const auto found = second(summed_cross_entropy(logits, targets, kIgnoreIndex), logits);
  EXPECT_TRUE(equals_in_float64(found, {logits}, [&](const Tensors& in) {
    const auto exact = in[0].detach().requires_grad_();
    return second(expected_loss(exact, targets), exact);
  }));
}

INSTANTIATE_TEST_SUITE_P(, DoubleBackwardOfCrossEntropy,
                         testing::Values(torch::kFloat, torch::kBFloat16, torch::kHalf));

TEST(CrossEntropyOfTargets, CallsHooksOfTheLogitsOnce) {
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const auto logits = torch::randn({2, 5}).to(type).requires_grad_();
    int calls = 0;
    logits.register_hook([&](const torch::Tensor&) { ++calls; });
    const auto targets = torch::tensor({3, 2}, torch::kLong);
    gradient(summed_cross_entropy(logits, targets, kIgnoreIndex), logits, /*create_graph=*/true);
    EXPECT_EQ(calls, 1) << type;
  }
}

TEST(CrossEntropyOfTargets, AcceptsTheDtypesOfTargetsThatLibTorchAccepts) {
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const auto logits = torch::randn({2, 5}).to(type).requires_grad_();
    const auto targets = torch::tensor({3, 2}, torch::kLong);
    EXPECT_TRUE(close(summed_cross_entropy(logits, targets.to(torch::kByte), kIgnoreIndex),
                      expected_loss(logits, targets), 1e-5))
        << type;
    EXPECT_THROW(summed_cross_entropy(logits, targets.to(torch::kInt), kIgnoreIndex), c10::Error)
        << type;
  }
}

TEST(CrossEntropyOfTargets, IsComputedInsideVmap) {
  const auto targets = torch::tensor({3, 2}, torch::kLong);
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    const auto logits = torch::randn({2, 5}).to(type).requires_grad_();
    const auto expected = summed_cross_entropy(logits, targets, kIgnoreIndex);
    const auto found = [&] {
      const InVmap vmap;
      return summed_cross_entropy(logits, targets, kIgnoreIndex);
    }();
    EXPECT_TRUE(close(found, expected, 1e-5)) << type;
  }
}

TEST(CrossEntropyOfTargets, AcceptsEveryLayout) {
  seed_afresh();
  const auto targets = torch::tensor({2, 0, 4}, torch::kLong);
  for (const auto& logits :
       {torch::randn({5, 3}).t(), torch::randn({3, 10}).slice(1, 0, 10, 2),
        torch::randn({1, 5}).expand({3, 5}), torch::randn({3, 5}, torch::kDouble)}) {
    EXPECT_TRUE(
        equals_in_float64(summed_cross_entropy(logits, targets, kIgnoreIndex), {logits},
                          [&](const Tensors& in) { return expected_loss(in[0], targets); }));
  }
  const auto none = torch::empty({0}, torch::kLong);
  EXPECT_EQ(summed_cross_entropy(torch::empty({0, 5}), none, kIgnoreIndex).item<float>(), 0.0F);
}

}  // namespace
}  // namespace attend
