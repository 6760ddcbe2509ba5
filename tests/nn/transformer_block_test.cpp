#include "attend/nn/transformer_block.h"

#include "attend/ops/attention_recorder.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

// That a block computes what its two norm orders say stands in seeds/block_order_test.cpp.
namespace attend {
namespace {

struct TransformerBlockTest : FixedSeed, testing::TestWithParam<NormOrder> {
  static TransformerBlockOptions options() {
    return TransformerBlockOptions(8, 2).norm_order(GetParam());
  }

  TransformerBlock block{options()};
  torch::Tensor x = torch::randn({2, 5, 8});
};

INSTANTIATE_TEST_SUITE_P(, TransformerBlockTest, testing::Values(NormOrder::pre, NormOrder::post),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(TransformerBlockTest, PassesTheMaskOnToItsAttention) {
  const AttentionArgs args{.mask = torch::rand({5, 5}) > 0.5, .causal = true};
  AttentionRecorder recorder;
  block->forward(x, args);
  const auto weights = recorder.weights().at(0);  // (B, H, T, T)
  const auto allowed = args.mask.logical_and(torch::ones({5, 5}, torch::kBool).tril());
  EXPECT_TRUE(torch::equal(weights > 0, allowed.expand({2, 2, 5, 5})));
}

TEST_P(TransformerBlockTest, NeedWeightsHasNoEffect) {
  EXPECT_TRUE(close(block->forward(x, {.need_weights = true}), block->forward(x), 1e-6));
}

TEST_P(TransformerBlockTest, UnbatchedEqualsBatched) {
  const AttentionArgs causal{.causal = true};
  EXPECT_TRUE(close(block->forward(x[1], causal), block->forward(x, causal)[1], 1e-6));
}

TEST_P(TransformerBlockTest, TakesNoBatchNoStepsAndOneStep) {
  for (const auto& input : {x.narrow(0, 0, 0), x.narrow(1, 0, 0), x.narrow(1, 0, 1)}) {
    EXPECT_EQ(block->forward(input, {.causal = true}).sizes(), input.sizes());
  }
}

TEST_P(TransformerBlockTest, AFullyMaskedRowStaysFinite) {
  auto mask = torch::ones({5, 5}, torch::kBool);
  mask[0].fill_(false);
  x.requires_grad_();
  const auto y = block->forward(x, {.mask = mask});
  y.square().sum().backward();
  EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(x.grad()).all().item<bool>());
  for (const auto& parameter : block->parameters()) {
    EXPECT_TRUE(torch::isfinite(parameter.grad()).all().item<bool>());
  }
}

TEST_P(TransformerBlockTest, DropsBranchesOnlyWhileTraining) {
  TransformerBlock dropping(options().dropout(0.5));
  EXPECT_FALSE(torch::allclose(dropping->forward(x), dropping->forward(x)));
  dropping->eval();
  EXPECT_TRUE(close(dropping->forward(x), dropping->forward(x), 0.0));
}

TEST_P(TransformerBlockTest, GradientsEqualFiniteDifferences) {
  auto small_options = TransformerBlockOptions(4, 2).norm_order(GetParam());
  small_options.feed_forward().hidden_dim(3);
  TransformerBlock small(small_options);
  small->to(torch::kDouble);
  auto leaves = small->parameters();
  leaves.push_back(torch::randn({2, 3, 4}, torch::kDouble).requires_grad_());
  EXPECT_TRUE(
      gradients_match([&] { return small->forward(leaves.back(), {.causal = true}); }, leaves));
}

TEST_P(TransformerBlockTest, SurvivesCloneAndFile) {
  expect_clone_and_file_keep(block, TransformerBlock(options()), [&](TransformerBlock module) {
    return module->forward(x, {.causal = true});
  });
}

TEST_P(TransformerBlockTest, TracedAtOneSizeHoldsAtOthers) {
  freeze(*block);
  const auto run = [&](const Tensors& in) { return block->forward(in[0], {.causal = true}); };
  const auto traced = trace(run, {torch::randn({2, 3, 8})});
  for (const auto& other : {torch::randn({1, 6, 8}), torch::randn({3, 1, 8})}) {
    EXPECT_TRUE(close(traced({other}), run({other}), 1e-5)) << other.sizes();
  }
}

TEST_P(TransformerBlockTest, WorksInFloat64) {
  block->to(torch::kDouble);
  EXPECT_EQ(block->forward(x.to(torch::kDouble)).scalar_type(), torch::kDouble);
}

TEST(TransformerBlock, ItsStateDictHasThesePublicNames) {
  EXPECT_THAT(state_names(*TransformerBlock(8, 2)),
              testing::ElementsAre("attention.qkv.weight", "attention.qkv.bias",
                                   "attention.out.weight", "attention.out.bias", "norm1.weight",
                                   "norm1.bias", "feed_forward.up.weight", "feed_forward.up.bias",
                                   "feed_forward.down.weight", "feed_forward.down.bias",
                                   "norm2.weight", "norm2.bias"));
}

TEST(TransformerBlock, NestedOptionsReachItsModules) {
  auto options = TransformerBlockOptions(8, 2).norm_eps(0.5);
  options.attention().head_dim(3).bias(false);
  options.feed_forward().hidden_dim(5).activation(Activation::relu);
  TransformerBlock block(options);
  EXPECT_EQ(block->attention->qkv->weight.sizes(), at::IntArrayRef({3 * 2 * 3, 8}));
  EXPECT_FALSE(block->attention->out->bias.defined());
  EXPECT_EQ(block->feed_forward->up->weight.sizes(), at::IntArrayRef({5, 8}));
  EXPECT_EQ(block->feed_forward->options.activation(), Activation::relu);
  EXPECT_EQ(block->norm1->options.eps(), 0.5);
  EXPECT_EQ(block->norm2->options.eps(), 0.5);
}

TEST(TransformerBlock, PrintsItselfAndItsParts) {
  const auto text = printed(*TransformerBlock(8, 2));
  EXPECT_THAT(text, testing::StartsWith("attend::TransformerBlock(norm_order=pre, dropout=0)"));
  EXPECT_THAT(text, testing::HasSubstr("(attention): attend::MultiheadAttention(embed_dim=8"));
  EXPECT_THAT(text, testing::HasSubstr("(feed_forward): attend::FeedForward(embed_dim=8"));
}

TEST(TransformerBlock, ErrorsNameBothValues) {
  auto options = TransformerBlockOptions(8, 2);
  options.feed_forward() = FeedForwardOptions(6);
  EXPECT_THAT([&] { TransformerBlock{options}; },
              throws<c10::ValueError>("feed_forward's embed_dim (6) must equal attention's (8)"));
  EXPECT_THAT([] { TransformerBlock(TransformerBlockOptions(8, 2).dropout(1.0)); },
              throws<c10::ValueError>("dropout (1) must be in [0, 1)"));
}

// In both orders, since a pre-norm block would otherwise leave the message to its layer norm.
TEST_P(TransformerBlockTest, NamesTheWidthAndTheShapeThatDoNotFit) {
  EXPECT_THAT(
      [&] {
        block->forward(torch::zeros({2, 5, 9}));
      },
      throws<c10::ValueError>("expects (B, T, E) or (T, E) with E = 8, found [2, 5, 9]"));
}

}  // namespace
}  // namespace attend
