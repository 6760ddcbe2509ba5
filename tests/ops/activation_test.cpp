#include "attend/ops/activation.h"

#include "support/close.h"
#include "support/throws.h"

#include <cmath>
#include <functional>

namespace attend {
namespace {

void expect_elementwise(Activation activation, const std::function<double(double)>& formula) {
  const auto x = torch::linspace(-4.0, 4.0, 33, torch::kDouble).view({3, 11});
  auto expected = x.clone();
  for (int64_t i = 0; i < x.numel(); ++i) {
    expected.view(-1)[i] = formula(x.view(-1)[i].item<double>());
  }
  EXPECT_TRUE(close(activate(x, activation), expected, 1e-12)) << to_string(activation);
}

TEST(Activate, ReluMatchesFormula) {
  expect_elementwise(Activation::relu, [](double x) { return std::max(x, 0.0); });
}

TEST(Activate, GeluMatchesErfFormula) {
  expect_elementwise(Activation::gelu,
                     [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); });
}

TEST(Activate, GeluTanhMatchesGpt2Approximation) {
  expect_elementwise(Activation::gelu_tanh, [](double x) {
    const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    return x / 2 * (1 + std::tanh(inner));
  });
}

TEST(Activate, SiluMatchesFormula) {
  expect_elementwise(Activation::silu, [](double x) { return x / (1 + std::exp(-x)); });
}

TEST(Activate, Relu2MatchesFormula) {
  expect_elementwise(Activation::relu2, [](double x) { return x > 0 ? x * x : 0.0; });
}

TEST(Activate, GatedActivationsMultiplySecondHalfByActivatedFirstHalf) {
  const auto x = torch::randn({2, 3, 10}, torch::kDouble);
  const auto gate = x.slice(-1, 0, 5);
  const auto value = x.slice(-1, 5, 10);
  EXPECT_TRUE(close(activate(x, Activation::glu), 1 / (1 + torch::exp(-gate)) * value, 1e-12));
  EXPECT_TRUE(close(activate(x, Activation::geglu),
                    gate / 2 * (1 + torch::erf(gate / std::sqrt(2.0))) * value, 1e-12));
  EXPECT_TRUE(
      close(activate(x, Activation::swiglu), gate / (1 + torch::exp(-gate)) * value, 1e-12));
}

TEST(Activate, GluEqualsTorchGluWithSwappedHalves) {
  const auto x = torch::randn({3, 4}, torch::kDouble);
  EXPECT_TRUE(close(activate(x, Activation::glu), torch::glu(x.roll(2, -1)), 1e-12));
  EXPECT_FALSE(close(activate(x, Activation::glu), torch::glu(x), 1e-3));
}

TEST(Activate, OnlyGatedActivationsHalveTheWidth) {
  const auto x = torch::randn({0, 3, 4});
  for (std::size_t i = 0; i < EnumNames<Activation>::names.size(); ++i) {
    const auto activation = static_cast<Activation>(i);
    const int64_t width = is_gated(activation) ? 2 : 4;
    EXPECT_EQ(activate(x, activation).sizes(), at::IntArrayRef({0, 3, width}))
        << to_string(activation);
  }
  EXPECT_TRUE(is_gated(Activation::glu));
  EXPECT_TRUE(is_gated(Activation::geglu));
  EXPECT_TRUE(is_gated(Activation::geglu_tanh));
  EXPECT_TRUE(is_gated(Activation::swiglu));
}

TEST(Activate, OddWidthThrowsForGatedActivations) {
  EXPECT_THAT(
      [] {
        activate(torch::zeros({2, 5}), Activation::swiglu);
      },
      throws<c10::ValueError>("swiglu expects (..., 2F) with an even width, found [2, 5]"));
}

TEST(Activate, UnknownActivationThrows) {
  EXPECT_THAT([] { activate(torch::zeros({1}), static_cast<Activation>(9)); },
              throws<c10::ValueError>("unknown activation 9"));
}

TEST(ActivationNames, RoundTripThroughFromString) {
  for (const auto name : EnumNames<Activation>::names) {
    EXPECT_EQ(to_string(from_string<Activation>(name).value()), name);
  }
  EXPECT_EQ(to_string(Activation::gelu_tanh), "gelu_tanh");
  EXPECT_EQ(from_string<Activation>("silu"), Activation::silu);
  EXPECT_EQ(from_string<Activation>("swish"), std::nullopt);
}

}  // namespace
}  // namespace attend
