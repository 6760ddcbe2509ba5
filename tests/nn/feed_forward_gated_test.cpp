// FeedForward with each gated activation (Shazeer 2020) and, in a separate test, with squared ReLU.
#include "attend/nn/feed_forward.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/trace.h"

#include <gmock/gmock.h>

#include <cmath>

namespace attend {
namespace {

struct GatedFeedForward : FixedSeed, testing::TestWithParam<Activation> {
  static FeedForwardOptions options(int64_t embed_dim, int64_t dim_feedforward) {
    return FeedForwardOptions(embed_dim).dim_feedforward(dim_feedforward).activation(GetParam());
  }
};

INSTANTIATE_TEST_SUITE_P(, GatedFeedForward,
                         testing::Values(Activation::glu, Activation::geglu, Activation::geglu_tanh,
                                         Activation::swiglu),
                         [](const auto& test) { return std::string(to_string(test.param)); });

double gate_of(double x, Activation activation) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  if (activation == Activation::glu) return sigmoid;
  if (activation == Activation::swiglu) return x * sigmoid;
  if (activation == Activation::geglu_tanh) {
    // 0.79788... is sqrt(2 / pi).
    return x / 2 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  }
  return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
}

/// Reference for one vector `x` (E) in plain loops.
torch::Tensor gated_in_loops(FeedForward& module, const torch::Tensor& x, Activation activation) {
  const auto number = [](const torch::Tensor& tensor) { return tensor.item<double>(); };
  auto y = module->down->bias.detach().clone();
  const int64_t dim_feedforward = module->down->weight.size(1);
  const auto up_row = [&](int64_t f) {
    double sum = number(module->up->bias[f]);
    for (int64_t e = 0; e < x.size(0); ++e) sum += number(module->up->weight[f][e] * x[e]);
    return sum;
  };
  for (int64_t f = 0; f < dim_feedforward; ++f) {
    const double hidden = gate_of(up_row(f), activation) * up_row(dim_feedforward + f);
    for (int64_t e = 0; e < x.size(0); ++e) {
      y[e] = number(y[e]) + number(module->down->weight[e][f]) * hidden;
    }
  }
  return y;
}

TEST_P(GatedFeedForward, MatchesReferenceInRandomCases) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 5; ++i) {
    const int64_t embed_dim = draw(1, 5);
    FeedForward module(options(embed_dim, draw(1, 5)));
    module->to(torch::kDouble);
    const auto x = torch::randn({draw(1, 3), embed_dim}, torch::kDouble);
    const auto y = module(x);
    for (int64_t t = 0; t < x.size(0); ++t) {
      EXPECT_TRUE(within_rounding(y[t], leaves_of(*module, {x}),
                                  [&] { return gated_in_loops(module, x[t], GetParam()); }));
    }
  }
}

TEST_P(GatedFeedForward, OnlyUpProjectionHasDoubleWidth) {
  FeedForward module(options(8, 5));
  EXPECT_EQ(module->up->weight.sizes(), at::IntArrayRef({10, 8}));
  EXPECT_EQ(module->up->bias.sizes(), at::IntArrayRef({10}));
  EXPECT_EQ(module->down->weight.sizes(), at::IntArrayRef({8, 5}));
  EXPECT_THAT(printed(*module), testing::HasSubstr("dim_feedforward=5, activation=" +
                                                   std::string(to_string(GetParam()))));
  FeedForward with_default_width(FeedForwardOptions(8).activation(GetParam()));
  EXPECT_EQ(with_default_width->up->weight.sizes(), at::IntArrayRef({64, 8}));
  EXPECT_EQ(with_default_width->down->weight.sizes(), at::IntArrayRef({8, 32}));
}

TEST_P(GatedFeedForward, GradientsEqualFiniteDifferences) {
  FeedForward module(options(3, 4));
  module->to(torch::kDouble);
  auto leaves = module->parameters();
  leaves.push_back(torch::randn({2, 3}, torch::kDouble).requires_grad_());
  EXPECT_TRUE(gradients_match([&] { return module(leaves.back()); }, leaves));
}

TEST_P(GatedFeedForward, CloneAndSaveLoadRoundTrip) {
  const auto x = torch::randn({2, 3, 8});
  expect_clone_and_save_load_work(FeedForward(options(8, 5)), FeedForward(options(8, 5)),
                                  [&](FeedForward module) { return module(x); });
}

TEST_P(GatedFeedForward, SupportsAllFloatDtypesAndEmptyInputs) {
  FeedForward module(options(8, 5));
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    module->to(dtype);
    for (const auto& x : {torch::randn({2, 3, 8}), torch::randn({0, 3, 8}), torch::randn({0, 8})}) {
      const auto y = module(x.to(dtype));
      EXPECT_EQ(y.scalar_type(), dtype);
      EXPECT_EQ(y.sizes(), x.sizes());
    }
  }
}

TEST_P(GatedFeedForward, TraceGeneralizesToOtherSizes) {
  FeedForward module(options(8, 5));
  freeze(*module);
  const auto run = [&](const Tensors& x) { return module(x[0]); };
  const auto traced = trace(run, {torch::randn({2, 3, 8})});
  for (const auto& x : {torch::randn({1, 5, 8}), torch::randn({3, 1, 8})}) {
    EXPECT_TRUE(close(traced({x}), run({x}), 1e-6)) << x.sizes();
  }
}

TEST(FeedForward, Relu2MatchesFormulaAndTraces) {
  FeedForward module(FeedForwardOptions(4).dim_feedforward(6).activation(Activation::relu2));
  freeze(*module);
  const auto run = [&](const Tensors& x) { return module(x[0]); };
  const auto x = torch::randn({5, 4});
  const auto hidden = torch::relu(module->up(x));
  EXPECT_TRUE(close(run({x}), module->down(hidden * hidden), 1e-6));
  EXPECT_TRUE(close(trace(run, {torch::randn({2, 3, 4})})({x.unsqueeze(0)})[0], run({x}), 1e-6));
}

}  // namespace
}  // namespace attend
