#include "attend/nn/stochastic_depth.h"

#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

namespace attend {
namespace {

struct StochasticDepthTest : FixedSeed, testing::Test {
  StochasticDepth drop{0.25};
};

TEST_F(StochasticDepthTest, DropsWholeSequencesAndRescalesTheOthers) {
  const auto x = torch::randn({200, 3, 4});
  const auto y = drop(x);
  int64_t dropped = 0;
  for (int64_t b = 0; b < 200; ++b) {
    const bool gone = y[b].eq(0).all().item<bool>();
    if (gone) ++dropped;
    EXPECT_TRUE(gone || close(y[b], x[b] / 0.75, 1e-6)) << "sequence " << b;
  }
  EXPECT_GT(dropped, 20);  // expected 50, standard deviation 6
  EXPECT_LT(dropped, 80);
}

TEST_F(StochasticDepthTest, PreservesTheMean) {
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    const auto y = drop(torch::ones({40000, 1, 1}, dtype));
    EXPECT_NEAR(y.mean().item<double>(), 1.0, 0.02);  // its standard deviation is 0.003
  }
}

TEST_F(StochasticDepthTest, DropsAnUnbatchedSequenceAsAWhole) {
  const auto x = torch::randn({3, 4});
  int64_t dropped = 0;
  for (int i = 0; i < 200; ++i) {
    const auto y = drop(x);
    const bool gone = y.eq(0).all().item<bool>();
    if (gone) ++dropped;
    EXPECT_TRUE(gone || close(y, x / 0.75, 1e-6));
  }
  EXPECT_GT(dropped, 20);
  EXPECT_LT(dropped, 80);
}

TEST_F(StochasticDepthTest, IsTheIdentityInEvalModeOrWithProbabilityZero) {
  const auto x = torch::randn({50, 3, 4});
  EXPECT_TRUE(close(StochasticDepth(0.0)(x), x, 0.0));
  drop->eval();
  EXPECT_TRUE(close(drop(x), x, 0.0));
  const auto run = [&](const Tensors& in) { return drop(in[0]); };
  EXPECT_TRUE(close(trace(run, {torch::randn({2, 3, 4})})({x}), x, 0.0));
}

TEST_F(StochasticDepthTest, DroppedSequencesHaveZeroGradients) {
  const auto x = torch::randn({50, 3, 4}).requires_grad_();
  const auto y = drop(x);
  y.sum().backward();
  EXPECT_TRUE(close(x.grad(), y.ne(0) / 0.75, 1e-6));
}

TEST_F(StochasticDepthTest, PreservesShapeAndDtype) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    for (const auto& x : {torch::randn({2, 3, 4}), torch::randn({0, 3, 4}), torch::randn({2, 0, 4}),
                          torch::randn({0, 4})}) {
      const auto y = drop(x.to(dtype));
      EXPECT_EQ(y.scalar_type(), dtype);
      EXPECT_EQ(y.sizes(), x.sizes());
    }
  }
}

TEST_F(StochasticDepthTest, CloneHasTheSameProbability) {
  EXPECT_EQ(printed(*drop->clone()), "attend::StochasticDepth(probability=0.25)");
  EXPECT_TRUE(state_names(*drop).empty());
}

TEST_F(StochasticDepthTest, ProbabilityOutOfRangeThrows) {
  EXPECT_THAT([] { StochasticDepth(1.0); },
              throws<c10::ValueError>("probability (1) must be in [0, 1)"));
  EXPECT_THAT([] { StochasticDepth(-0.1); },
              throws<c10::ValueError>("probability (-0.1) must be in [0, 1)"));
}

}  // namespace
}  // namespace attend
