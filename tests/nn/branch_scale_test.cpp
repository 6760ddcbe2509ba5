#include "attend/nn/branch_scale.h"

#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

TEST(LayerScale, MultipliesEachChannelByItsWeight) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  LayerScale scale(3);
  EXPECT_TRUE(close(scale->weight, torch::full({3}, 1e-5), 1e-12));
  scale->weight.copy_(torch::randn({3}));
  const auto x = torch::randn({2, 4, 3});
  const auto y = scale(x);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(close(y.select(-1, i), x.select(-1, i) * scale->weight[i].item<float>(), 0.0));
  }
}

TEST(LayerScale, InitSetsTheInitialValue) {
  LayerScale scale(LayerScaleOptions(3).init(0.5));
  EXPECT_TRUE(close(scale(torch::ones({2, 3})), torch::full({2, 3}, 0.5), 0.0));
}

TEST(ReZero, HasOneParameterInitializedToZero) {
  ReZero scale;
  const auto x = torch::randn({2, 4, 3});
  EXPECT_TRUE(close(scale(x), torch::zeros({2, 4, 3}), 0.0));
  scale(x).sum().backward();
  EXPECT_TRUE(close(scale->weight.grad(), x.sum(), 1e-5))
      << "without this gradient, the weight would stay 0";
  const torch::NoGradGuard no_grad;
  scale->weight.fill_(-2.0);
  EXPECT_TRUE(close(scale(x), -2 * x, 0.0));
}

TEST(ConstantScale, MultipliesByItsFactorAndHasNoParameters) {
  ConstantScale scale(0.5);
  const auto x = torch::randn({2, 4, 3});
  EXPECT_TRUE(close(scale(x), x / 2, 0.0));
  EXPECT_TRUE(scale->parameters().empty());
}

struct BranchScales : FixedSeed, testing::Test {
  static std::vector<ModuleFactory> factories() {
    return {layer_scale(0.5), rezero(), constant_scale(0.5)};
  }
};

TEST_F(BranchScales, GradientsEqualFiniteDifferences) {
  for (const auto& make : factories()) {
    auto scale = make(4);
    scale.ptr()->to(torch::kDouble);
    auto leaves = scale.ptr()->parameters();
    leaves.push_back(torch::randn({2, 3, 4}, torch::kDouble).requires_grad_());
    EXPECT_TRUE(gradients_match([&] { return scale.forward(leaves.back()); }, leaves));
  }
}

TEST_F(BranchScales, PreserveShapeAndDtype) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    for (const auto& make : factories()) {
      auto scale = make(8);
      scale.ptr()->to(dtype);
      for (const auto& x : {torch::randn({2, 3, 8}), torch::randn({0, 3, 8}), torch::randn({3, 8}),
                            torch::randn({8, 3}).t()}) {
        const auto y = scale.forward(x.to(dtype));
        EXPECT_EQ(y.scalar_type(), dtype);
        EXPECT_EQ(y.sizes(), x.sizes());
      }
    }
  }
}

TEST_F(BranchScales, TraceGeneralizesToOtherSizes) {
  for (const auto& make : factories()) {
    auto scale = make(8);
    freeze(*scale.ptr());
    for (auto& parameter : scale.ptr()->parameters()) parameter.fill_(0.25);
    const auto run = [&](const Tensors& x) -> torch::Tensor { return scale.forward(x[0]); };
    const auto x = torch::randn({1, 5, 8});
    EXPECT_TRUE(close(trace(run, {torch::randn({2, 3, 8})})({x}), run({x}), 0.0));
  }
}

TEST_F(BranchScales, CloneAndSaveLoadRoundTrip) {
  const auto x = torch::randn({3, 8});
  const auto check = [&](auto module, auto fresh) {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : fresh->parameters()) parameter.add_(1.0);
    expect_clone_and_save_load_work(module, fresh, [&](auto scale) { return scale(x); });
  };
  check(LayerScale(8), LayerScale(8));
  check(ReZero(), ReZero());
  const auto copy = ConstantScale(0.5)->clone();
  EXPECT_TRUE(close(copy->as<ConstantScale>()->forward(x), x / 2, 0.0));
}

TEST_F(BranchScales, StateDictKeysAndPrettyPrint) {
  EXPECT_THAT(state_names(*LayerScale(8)), testing::ElementsAre("weight"));
  EXPECT_THAT(state_names(*ReZero()), testing::ElementsAre("weight"));
  EXPECT_EQ(ReZero()->weight.dim(), 0);
  EXPECT_EQ(printed(*LayerScale(8)), "attend::LayerScale(width=8, init=1e-05)");
  EXPECT_EQ(printed(*ReZero()), "attend::ReZero()");
  EXPECT_EQ(printed(*ConstantScale(0.5)), "attend::ConstantScale(factor=0.5)");
}

TEST(LayerScale, ErrorMessagesNameTheValues) {
  EXPECT_THAT(
      [] {
        LayerScale(8)->forward(torch::zeros({2, 7}));
      },
      throws<c10::ValueError>("LayerScale expects (..., width) with width 8, found [2, 7]"));
  EXPECT_THAT([] { LayerScale(0); }, throws<c10::ValueError>("width (0) must be positive"));
  EXPECT_THAT([] { LayerScale(LayerScaleOptions(8).init(NAN)); },
              throws<c10::ValueError>("init (nan) must be finite"));
  EXPECT_THAT([] { ConstantScale{INFINITY}; },
              throws<c10::ValueError>("factor (inf) must be finite"));
}

}  // namespace
}  // namespace attend
