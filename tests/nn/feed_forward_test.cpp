#include "attend/nn/feed_forward.h"

#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/throws.h"
#include "support/trace.h"

namespace attend {
namespace {

TEST(FeedForward, EqualsUpActivationDown) {
  const auto x = torch::randn({2, 3, 8});
  for (const auto activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
    FeedForward feed_forward(FeedForwardOptions(8).dim_feedforward(5).activation(activation));
    const auto expected = feed_forward->down(activate(feed_forward->up(x), activation));
    EXPECT_TRUE(close(feed_forward(x), expected, 0.0));
  }
}

TEST(FeedForward, PreservesTheShape) {
  FeedForward feed_forward(FeedForwardOptions(8));
  for (const auto& x : {torch::randn({2, 3, 8}), torch::randn({3, 8}), torch::randn({0, 3, 8}),
                        torch::randn({2, 0, 8})}) {
    EXPECT_EQ(feed_forward(x).sizes(), x.sizes());
  }
}

TEST(FeedForward, DefaultDimFeedforwardIsFourTimesEmbedDim) {
  EXPECT_EQ(FeedForward(FeedForwardOptions(8))->up->weight.sizes(), at::IntArrayRef({32, 8}));
  const auto options = FeedForwardOptions(8).dim_feedforward(5);
  EXPECT_EQ(FeedForward(options)->down->weight.sizes(), at::IntArrayRef({8, 5}));
}

TEST(FeedForward, DropoutIsActiveInTrainingOnly) {
  FeedForward feed_forward(FeedForwardOptions(8).dropout(0.5));
  const auto x = torch::randn({2, 3, 8});
  EXPECT_FALSE(torch::allclose(feed_forward(x), feed_forward(x)));
  feed_forward->eval();
  EXPECT_TRUE(close(feed_forward(x), feed_forward(x), 0.0));
}

TEST(FeedForward, StateDictHasDocumentedKeys) {
  EXPECT_THAT(state_names(*FeedForward(FeedForwardOptions(8))),
              testing::ElementsAre("up.weight", "up.bias", "down.weight", "down.bias"));
  EXPECT_THAT(state_names(*FeedForward(FeedForwardOptions(8).bias(false))),
              testing::ElementsAre("up.weight", "down.weight"));
}

TEST(FeedForward, CloneAndSaveLoadRoundTrip) {
  const auto options = FeedForwardOptions(8).dim_feedforward(5).activation(Activation::silu);
  const auto x = torch::randn({2, 3, 8});
  expect_clone_and_save_load_work(FeedForward(options), FeedForward(options),
                                  [&](FeedForward module) { return module(x); });
}

TEST(FeedForward, SupportsFloat64) {
  FeedForward feed_forward(FeedForwardOptions(8));
  feed_forward->to(torch::kDouble);
  EXPECT_EQ(feed_forward(torch::randn({3, 8}, torch::kDouble)).scalar_type(), torch::kDouble);
}

TEST(FeedForward, GradientsEqualFiniteDifferences) {
  for (const auto activation : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    FeedForward feed_forward(FeedForwardOptions(3).dim_feedforward(4).activation(activation));
    feed_forward->to(torch::kDouble);
    auto leaves = feed_forward->parameters();
    leaves.push_back(torch::randn({2, 3}, torch::kDouble).requires_grad_());
    EXPECT_TRUE(gradients_match([&] { return feed_forward(leaves.back()); }, leaves));
  }
}

TEST(FeedForward, TraceGeneralizesToOtherSizes) {
  FeedForward feed_forward(FeedForwardOptions(8));
  freeze(*feed_forward);
  const auto run = [&](const Tensors& x) { return feed_forward(x[0]); };
  const auto x = torch::randn({1, 5, 8});
  EXPECT_TRUE(close(trace(run, {torch::randn({2, 3, 8})})({x}), run({x}), 1e-6));
}

TEST(FeedForward, PrettyPrintShowsOptions) {
  EXPECT_THAT(printed(*FeedForward(FeedForwardOptions(8).bias(false).dropout(0.25))),
              testing::StartsWith("attend::FeedForward(embed_dim=8, dim_feedforward=32, "
                                  "activation=gelu, bias=false, dropout=0.25)"));
}

TEST(FeedForward, ErrorMessagesNameTheValues) {
  FeedForward feed_forward(FeedForwardOptions(8));
  EXPECT_THAT(
      [&] {
        feed_forward(torch::zeros({2, 7}));
      },
      throws<c10::ValueError>("FeedForward expects (..., T, E) with E = 8, found "
                              "[2, 7]"));
  EXPECT_THAT([] { FeedForward(FeedForwardOptions(-8)); },
              throws<c10::ValueError>("embed_dim (-8) must be positive"));
  EXPECT_THAT([] { FeedForward(FeedForwardOptions(8).dim_feedforward(0)); },
              throws<c10::ValueError>("dim_feedforward (0) must be positive"));
  EXPECT_THAT([] { FeedForward(FeedForwardOptions(8).dropout(-0.5)); },
              throws<c10::ValueError>("dropout (-0.5) must be in [0, 1)"));
}

TEST(FeedForward, ActivationMayBeAFunction) {
  const auto options = FeedForwardOptions(8).dim_feedforward(5).activation(
      [](const torch::Tensor& x) { return torch::mish(x); });
  FeedForward feed_forward(options);
  const auto x = torch::randn({2, 3, 8});
  EXPECT_TRUE(close(feed_forward(x), feed_forward->down(torch::mish(feed_forward->up(x))), 0.0));
  EXPECT_THAT(printed(*feed_forward), testing::HasSubstr("activation=function"));
  expect_clone_and_save_load_work(feed_forward, FeedForward(options),
                                  [&](FeedForward module) { return module(x); });
}

TEST(FeedForward, EmptyActivationThrows) {
  EXPECT_THAT(
      [] {
        FeedForward(
            FeedForwardOptions(8).activation(FeedForwardActivation(std::in_place_index<1>)));
      },
      throws<c10::ValueError>("activation must not be an empty function"));
}

}  // namespace
}  // namespace attend
