// A single residual branch; blocks are tested in transformer_block_test.cpp and
// seeds/block_order_test.cpp.
#include "attend/nn/residual.h"

#include "attend/nn/branch_scale.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"

#include <torch/nn/modules/dropout.h>

namespace attend {
namespace {

using testing::ElementsAre;

/// A module with one residual branch.
struct BranchOwner : torch::nn::Module {
  explicit BranchOwner(const ResidualOptions& options) : residual(*this, "1", 4, options) {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : parameters()) parameter.add_(torch::rand_like(parameter));
  }
  torch::Tensor norm(const std::string& name, const torch::Tensor& x) {
    return named_children()[name]->as<LayerNorm>()->forward(x);
  }
  Residual residual;
};

torch::Tensor squared(const torch::Tensor& x) {
  return x * x;
}

struct ResidualTest : FixedSeed, testing::Test {
  torch::NoGradGuard no_grad;
  torch::Tensor x = torch::randn({200, 3, 4});
};

TEST_F(ResidualTest, PreNormNormalizesTheInputOfTheBranch) {
  for (const auto order : {NormOrder::pre, NormOrder::parallel}) {
    BranchOwner owner(ResidualOptions().norm_order(order));
    EXPECT_THAT(owner.named_children().keys(), ElementsAre("norm1"));
    EXPECT_TRUE(close(owner.residual(x, squared), x + squared(owner.norm("norm1", x)), 1e-5));
  }
}

TEST_F(ResidualTest, PostNormNormalizesTheSum) {
  BranchOwner owner(ResidualOptions().norm_order(NormOrder::post));
  EXPECT_THAT(owner.named_children().keys(), ElementsAre("norm1"));
  EXPECT_TRUE(close(owner.residual(x, squared), owner.norm("norm1", x + squared(x)), 1e-5));
}

TEST_F(ResidualTest, SandwichNormNormalizesInputAndOutputOfTheBranch) {
  BranchOwner owner(ResidualOptions().norm_order(NormOrder::sandwich));
  EXPECT_THAT(owner.named_children().keys(), ElementsAre("norm1", "norm1_out"));
  const auto branch = owner.norm("norm1_out", squared(owner.norm("norm1", x)));
  EXPECT_TRUE(close(owner.residual(x, squared), x + branch, 1e-5));
}

TEST_F(ResidualTest, ScaleAppliesToTheBranchOnly) {
  for (const auto order : {NormOrder::pre, NormOrder::sandwich, NormOrder::parallel}) {
    auto options = ResidualOptions().norm_order(order);
    BranchOwner plain(options);
    BranchOwner scaled(options.branch_scale(constant_scale(0.5)));
    EXPECT_THAT(scaled.named_children().keys().back(), "scale1");
    for (const auto& item : plain.named_parameters()) {
      scaled.named_parameters()[item.key()].copy_(item.value());
    }
    const auto branch = plain.residual(x, squared) - x;
    EXPECT_TRUE(close(scaled.residual(x, squared), x + branch / 2, 1e-5)) << to_string(order);
  }
}

TEST_F(ResidualTest, PostNormNormalizesTheSumWithTheScaledBranch) {
  BranchOwner owner(
      ResidualOptions().norm_order(NormOrder::post).branch_scale(constant_scale(0.5)));
  EXPECT_TRUE(close(owner.residual(x, squared), owner.norm("norm1", x + squared(x) / 2), 1e-5));
}

TEST_F(ResidualTest, ScaleHasTheWidthOfTheBranch) {
  BranchOwner owner(ResidualOptions().branch_scale(layer_scale(0.5)));
  EXPECT_THAT(state_names(owner), ElementsAre("norm1.weight", "norm1.bias", "scale1.weight"));
  const auto weight = owner.named_parameters()["scale1.weight"];
  EXPECT_TRUE(
      close(owner.residual(x, squared), x + weight * squared(owner.norm("norm1", x)), 1e-5));
}

TEST_F(ResidualTest, ReZeroIsInitiallyTheIdentity) {
  BranchOwner owner(ResidualOptions().branch_scale(rezero()));
  owner.named_parameters()["scale1.weight"].zero_();
  EXPECT_TRUE(close(owner.residual(x, squared), x, 0.0));
}

TEST_F(ResidualTest, DropoutZeroesElementsOfTheBranchInTraining) {
  BranchOwner owner(ResidualOptions().dropout(0.25));
  const auto branch = squared(owner.norm("norm1", x));
  const auto y = owner.residual(x, squared) - x;
  const auto dropped = y.eq(0);
  EXPECT_TRUE(close(y, (branch / 0.75).masked_fill(dropped, 0.0), 1e-4));
  EXPECT_NEAR(dropped.to(torch::kDouble).mean().item<double>(), 0.25, 0.05);
  owner.eval();
  EXPECT_TRUE(close(owner.residual(x, squared), x + branch, 1e-5));
}

TEST_F(ResidualTest, StochasticDepthSkipsTheBranchForWholeSequences) {
  BranchOwner owner(ResidualOptions().stochastic_depth(0.25));
  const auto branch = squared(owner.norm("norm1", x));
  const auto y = owner.residual(x, squared);
  int64_t dropped = 0;
  for (int64_t b = 0; b < x.size(0); ++b) {
    const bool gone = torch::equal(y[b], x[b]);
    if (gone) ++dropped;
    EXPECT_TRUE(gone || close(y[b], x[b] + branch[b] / 0.75, 1e-4)) << "sequence " << b;
  }
  EXPECT_NEAR(static_cast<double>(dropped), 50, 30);
  owner.eval();
  EXPECT_TRUE(close(owner.residual(x, squared), x + branch, 1e-5));
}

TEST_F(ResidualTest, NormMayBeAnyModule) {
  const auto identity = [](int64_t) { return torch::nn::AnyModule(torch::nn::Dropout(0.0)); };
  BranchOwner owner(ResidualOptions().norm(identity));
  EXPECT_TRUE(close(owner.residual(x, squared), x + squared(x), 1e-6));
}

TEST_F(ResidualTest, ProbabilityOutOfRangeThrows) {
  EXPECT_THAT([] { BranchOwner(ResidualOptions().dropout(1.0)); },
              throws<c10::ValueError>("dropout (1) must be in [0, 1)"));
  EXPECT_THAT([] { BranchOwner(ResidualOptions().stochastic_depth(-0.5)); },
              throws<c10::ValueError>("stochastic_depth (-0.5) must be in [0, 1)"));
}

}  // namespace
}  // namespace attend
