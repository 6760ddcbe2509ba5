// MixtureOfExperts as a module: state dict, serialization, traces, errors.
#include "attend/nn/mixture_of_experts.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <torch/nn/modules/container/any.h>

namespace attend {
namespace {

using MixtureOptions = MixtureOfExpertsOptions;

struct MixtureModule : FixedSeed, testing::Test {
  static MixtureOptions options() {
    return {FeedForwardOptions(8).dim_feedforward(5).activation(Activation::swiglu),
            ExpertsOptions(4)};
  }

  MixtureOfExperts mixture{options()};
};

TEST_F(MixtureModule, StateDictHasDocumentedKeys) {
  MixtureOfExperts two(MixtureOptions(FeedForwardOptions(8).bias(false), 2));
  EXPECT_THAT(state_names(*two),
              testing::ElementsAre("router.weight", "experts.0.up.weight", "experts.0.down.weight",
                                   "experts.1.up.weight", "experts.1.down.weight"));
  EXPECT_EQ(two->router->weight.sizes(), at::IntArrayRef({2, 8}));
}

TEST_F(MixtureModule, ExpertsShareOptionsButNotParameters) {
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& expert = mixture->experts->at<FeedForwardImpl>(i);
    EXPECT_EQ(expert.up->weight.sizes(), at::IntArrayRef({10, 8}));
    EXPECT_EQ(std::get<Activation>(expert.options.activation()), Activation::swiglu);
  }
  EXPECT_FALSE(close(mixture->experts->at<FeedForwardImpl>(0).up->weight,
                     mixture->experts->at<FeedForwardImpl>(1).up->weight, 1e-3));
}

TEST_F(MixtureModule, CloneAndSaveLoadRoundTrip) {
  const auto x = torch::randn({2, 3, 8});
  const auto run = [&](MixtureOfExperts module) { return module(x); };
  expect_clone_and_save_load_work(mixture, MixtureOfExperts(options()), run);
}

TEST_F(MixtureModule, SupportsAllFloatDtypes) {
  const auto x = torch::randn({2, 3, 8});
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    mixture->to(dtype);
    const auto y = mixture(x.to(dtype));
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
    y.sum().backward();
    EXPECT_TRUE(torch::isfinite(mixture->router->weight.grad()).all().item<bool>());
    mixture->zero_grad();
  }
}

TEST_F(MixtureModule, RouterComputesInFloat32ForBfloat16Modules) {
  mixture->to(torch::kBFloat16);
  mixture(torch::randn({2, 3, 8}).to(torch::kBFloat16));
  EXPECT_EQ(mixture->aux_loss.scalar_type(), torch::kFloat);
}

TEST_F(MixtureModule, CanBeCalledThroughAnyModule) {
  torch::nn::AnyModule any(mixture);
  const auto x = torch::randn({2, 3, 8});
  EXPECT_TRUE(close(any.forward(x), mixture(x), 0.0));
}

TEST_F(MixtureModule, TraceGeneralizesToOtherSizes) {
  freeze(*mixture);
  const auto run = [&](const Tensors& x) { return mixture(x[0]); };
  const auto traced = trace(run, {torch::randn({2, 3, 8})});
  for (const auto& x :
       {torch::randn({3, 9, 8}), torch::randn({3, 1, 8}), torch::randn({1, 0, 8})}) {
    EXPECT_TRUE(close(traced({x}), run({x}), 1e-6)) << x.sizes();
  }
  const auto unbatched = trace(run, {torch::randn({3, 8})});
  const auto x = torch::randn({5, 8});
  EXPECT_TRUE(close(unbatched({x}), run({x}), 1e-6));
}

TEST_F(MixtureModule, TraceGeneralizesToExpertsUnusedInTheExample) {
  freeze(*mixture);
  const auto run = [&](const Tensors& x) { return mixture(x[0]); };
  // Equal tokens are all routed to the same 2 of 4 experts.
  const auto traced = trace(run, {torch::randn({1, 1, 8}).expand({2, 3, 8})});
  const auto x = torch::randn({2, 40, 8});
  const auto used = std::get<1>(mixture->router(x).topk(2, -1));
  ASSERT_EQ(std::get<0>(at::_unique(used)).numel(), 4) << "an expert has no tokens";
  EXPECT_TRUE(close(traced({x}), run({x}), 1e-6));
  // The reverse case: all four experts have tokens in the trace. In the call, only two experts have
  // tokens.
  const auto traced_with_all = trace(run, {x});
  const auto equal = torch::randn({1, 1, 8}).expand({2, 3, 8});
  EXPECT_TRUE(close(traced_with_all({equal}), run({equal}), 1e-6));
}

TEST_F(MixtureModule, PrettyPrintShowsOptionsAndExperts) {
  const auto text = printed(*mixture);
  EXPECT_THAT(
      text,
      testing::StartsWith(
          "attend::MixtureOfExperts(num_experts=4, num_experts_per_tok=2, norm_topk_prob=true)"));
  EXPECT_THAT(text, testing::HasSubstr("(3): attend::FeedForward(embed_dim=8, dim_feedforward=5"));
}

TEST_F(MixtureModule, ErrorMessagesNameTheValues) {
  EXPECT_THAT(
      [&] {
        mixture(torch::zeros({2, 3, 7}));
      },
      throws<c10::ValueError>("MixtureOfExperts expects (..., T, E) with E = 8, "
                              "found [2, 3, 7]"));
  const auto make = [](const ExpertsOptions& experts) {
    return MixtureOfExperts(MixtureOptions(FeedForwardOptions(8), experts));
  };
  EXPECT_THAT([&] { make(ExpertsOptions(2).num_experts_per_tok(3)); },
              throws<c10::ValueError>("num_experts_per_tok (3) must be at most num_experts (2)"));
  EXPECT_THAT([&] { make(ExpertsOptions(2).num_experts_per_tok(0)); },
              throws<c10::ValueError>("num_experts_per_tok (0) must be positive"));
  EXPECT_THAT([&] { make(0); }, throws<c10::ValueError>("num_experts (0) must be positive"));
  EXPECT_THAT([] { MixtureOfExperts(MixtureOptions(-8, 2)); },
              throws<c10::ValueError>("embed_dim (-8) must be positive"));
}

}  // namespace
}  // namespace attend
