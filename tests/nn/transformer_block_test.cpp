#include "attend/nn/transformer_block.h"

#include "attend/nn/branch_scale.h"
#include "attend/nn/stochastic_depth.h"
#include "attend/ops/attention_recorder.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

// Norm orders are tested in seeds/block_order_test.cpp, blocks with experts in
// transformer_block_experts_test.cpp.
namespace attend {
namespace {

using BlockKind = std::tuple<NormOrder, std::string>;  // norm order and norm

struct TransformerBlockTest : FixedSeed, testing::TestWithParam<BlockKind> {
  static TransformerBlockOptions options(int64_t embed_dim = 8) {
    const auto& [order, norm] = GetParam();
    TransformerBlockOptions options(embed_dim, 2);
    options.residual().norm_order(order);
    if (norm == "rms_norm") options.residual().norm(rms_norm());
    return options;
  }

  TransformerBlock block{options()};
  torch::Tensor x = torch::randn({2, 5, 8});
};

INSTANTIATE_TEST_SUITE_P(, TransformerBlockTest,
                         testing::Combine(testing::Values(NormOrder::pre, NormOrder::post,
                                                          NormOrder::sandwich, NormOrder::parallel,
                                                          NormOrder::parallel_separate_norms),
                                          testing::Values("layer_norm", "rms_norm")),
                         [](const auto& test) {
                           return std::string(to_string(std::get<0>(test.param))) + "_" +
                                  std::get<1>(test.param);
                         });

TEST_P(TransformerBlockTest, PassesTheMaskToItsAttention) {
  const AttentionArgs args{.mask = torch::rand({5, 5}) > 0.5, .causal = true};
  AttentionRecorder recorder;
  block->forward(x, args);
  const auto weights = recorder.weights().at(0);  // (B, H, T, T)
  const auto allowed = args.mask.logical_and(torch::ones({5, 5}, torch::kBool).tril());
  EXPECT_TRUE(torch::equal(weights > 0, allowed.expand({2, 2, 5, 5})));
}

// The next two tests use float64, since norms amplify rounding errors.
TEST_P(TransformerBlockTest, NeedWeightsHasNoEffect) {
  block->to(torch::kDouble);
  x = x.to(torch::kDouble);
  EXPECT_TRUE(close(block->forward(x, {.need_weights = true}), block->forward(x), 1e-12));
}

TEST_P(TransformerBlockTest, UnbatchedEqualsBatched) {
  block->to(torch::kDouble);
  x = x.to(torch::kDouble);
  const AttentionArgs causal{.causal = true};
  EXPECT_TRUE(close(block->forward(x[1], causal), block->forward(x, causal)[1], 1e-12));
}

TEST_P(TransformerBlockTest, SupportsEmptyInputsAndOneToken) {
  for (const auto& input : {x.narrow(0, 0, 0), x.narrow(1, 0, 0), x.narrow(1, 0, 1)}) {
    EXPECT_EQ(block->forward(input, {.causal = true}).sizes(), input.sizes());
  }
}

TEST_P(TransformerBlockTest, FullyMaskedRowsStayFinite) {
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

TEST_P(TransformerBlockTest, DropoutIsActiveInTrainingOnly) {
  auto with_dropout = options();
  with_dropout.residual().dropout(0.5);
  TransformerBlock dropping(with_dropout);
  EXPECT_FALSE(torch::allclose(dropping->forward(x), dropping->forward(x)));
  dropping->eval();
  EXPECT_TRUE(close(dropping->forward(x), dropping->forward(x), 0.0));
}

TEST_P(TransformerBlockTest, GradientsEqualFiniteDifferences) {
  auto small_options = options(4);
  small_options.feed_forward().dim_feedforward(3);
  TransformerBlock small(small_options);
  small->to(torch::kDouble);
  auto leaves = small->parameters();
  leaves.push_back(torch::randn({2, 3, 4}, torch::kDouble).requires_grad_());
  EXPECT_TRUE(
      gradients_match([&] { return small->forward(leaves.back(), {.causal = true}); }, leaves));
}

TEST_P(TransformerBlockTest, CloneAndSaveLoadRoundTrip) {
  expect_clone_and_save_load_work(block, TransformerBlock(options()), [&](TransformerBlock module) {
    return module->forward(x, {.causal = true});
  });
}

TEST_P(TransformerBlockTest, TraceGeneralizesToOtherSizes) {
  freeze(*block);
  const auto run = [&](const Tensors& in) { return block->forward(in[0], {.causal = true}); };
  const auto traced = trace(run, {torch::randn({2, 3, 8})});
  for (const auto& other : {torch::randn({1, 6, 8}), torch::randn({3, 1, 8})}) {
    EXPECT_TRUE(close(traced({other}), run({other}), 1e-5)) << other.sizes();
  }
}

TEST_P(TransformerBlockTest, SupportsFloat64AndBfloat16) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16}) {
    block->to(dtype);
    EXPECT_EQ(block->forward(x.to(dtype)).scalar_type(), dtype);
  }
}

TEST(TransformerBlock, StateDictHasDocumentedKeys) {
  EXPECT_THAT(state_names(*TransformerBlock(8, 2)),
              testing::ElementsAre("attention.qkv.weight", "attention.qkv.bias",
                                   "attention.out.weight", "attention.out.bias", "norm1.weight",
                                   "norm1.bias", "feed_forward.up.weight", "feed_forward.up.bias",
                                   "feed_forward.down.weight", "feed_forward.down.bias",
                                   "norm2.weight", "norm2.bias"));
}

TEST(TransformerBlock, NormsHaveDocumentedNames) {
  const auto norms = [](NormOrder order) {
    TransformerBlockOptions options(8, 2);
    options.residual().norm_order(order);
    std::vector<std::string> names;
    for (const auto& name : TransformerBlock(options)->named_children().keys()) {
      if (name.starts_with("norm")) names.push_back(name);
    }
    return names;
  };
  EXPECT_THAT(norms(NormOrder::pre), testing::ElementsAre("norm1", "norm2"));
  EXPECT_THAT(norms(NormOrder::post), testing::ElementsAre("norm1", "norm2"));
  EXPECT_THAT(norms(NormOrder::sandwich),
              testing::ElementsAre("norm1", "norm1_out", "norm2", "norm2_out"));
  EXPECT_THAT(norms(NormOrder::parallel), testing::ElementsAre("norm1"));
  EXPECT_THAT(norms(NormOrder::parallel_separate_norms), testing::ElementsAre("norm1", "norm2"));
}

TEST(TransformerBlock, ParallelBranchesHaveOneOrSeparateNorms) {
  for (const auto order : {NormOrder::parallel, NormOrder::parallel_separate_norms}) {
    TransformerBlockOptions options(8, 2);
    options.residual().norm_order(order);
    TransformerBlock block(options);
    const torch::NoGradGuard no_grad;
    for (auto& item : block->named_parameters()) {
      if (item.key().starts_with("norm")) item.value().uniform_(0.5, 1.5);
    }
    const auto x = torch::randn({2, 5, 8});
    const auto norm = [&](const char* name) {
      return block->named_children()[name]->as<LayerNorm>()->forward(x);
    };
    const auto second = norm(order == NormOrder::parallel ? "norm1" : "norm2");
    const auto expected =
        x + block->attention->forward(norm("norm1")).output + block->feed_forward.forward(second);
    EXPECT_TRUE(close(block->forward(x), expected, 1e-6)) << to_string(order);
  }
}

TEST(TransformerBlock, DropoutSetsAllProbabilities) {
  const auto options = TransformerBlockOptions(8, 2).dropout(0.25);
  EXPECT_EQ(options.attention().dropout(), 0.25);
  EXPECT_EQ(options.feed_forward().dropout(), 0.25);
  EXPECT_EQ(options.residual().dropout(), 0.25);
}

TEST(TransformerBlock, NestedOptionsAreAppliedToSubmodules) {
  auto options = TransformerBlockOptions(8, 2);
  options.residual().norm(layer_norm(0.5)).branch_scale(layer_scale()).stochastic_depth(0.25);
  options.attention().head_dim(3).bias(false);
  options.feed_forward().dim_feedforward(5).activation(Activation::relu);
  TransformerBlock block(options);
  EXPECT_EQ(block->attention->qkv->weight.sizes(), at::IntArrayRef({3 * 2 * 3, 8}));
  EXPECT_FALSE(block->attention->out->bias.defined());
  const auto feed_forward = block->feed_forward.get<FeedForward>();
  EXPECT_EQ(feed_forward->up->weight.sizes(), at::IntArrayRef({5, 8}));
  EXPECT_EQ(std::get<Activation>(feed_forward->options.activation()), Activation::relu);
  const auto children = block->named_children();
  for (const std::string number : {"1", "2"}) {
    EXPECT_EQ(children["norm" + number]->as<LayerNorm>()->options.eps(), 0.5);
    EXPECT_NE(children["scale" + number]->as<LayerScale>(), nullptr);
    EXPECT_EQ(children["stochastic_depth" + number]->as<StochasticDepth>()->probability, 0.25);
  }
}

TEST(TransformerBlock, PrettyPrintShowsSubmodules) {
  const auto text = printed(*TransformerBlock(8, 2));
  EXPECT_THAT(text, testing::StartsWith("attend::TransformerBlock(norm_order=pre)"));
  EXPECT_THAT(text, testing::HasSubstr("(attention): attend::MultiheadAttention(embed_dim=8"));
  EXPECT_THAT(text, testing::HasSubstr("(feed_forward): attend::FeedForward(embed_dim=8"));
}

TEST(TransformerBlock, ErrorMessagesNameTheValues) {
  auto options = TransformerBlockOptions(8, 2);
  options.feed_forward() = FeedForwardOptions(6);
  EXPECT_THAT([&] { TransformerBlock{options}; },
              throws<c10::ValueError>("feed_forward's embed_dim (6) must equal attention's (8)"));
  options = TransformerBlockOptions(8, 2);
  options.residual().dropout(1.0);
  EXPECT_THAT([&] { TransformerBlock{options}; },
              throws<c10::ValueError>("dropout (1) must be in [0, 1)"));
}

// Tests all norm orders. With pre-norm, the first module that gets x is a norm. The block must
// check the width before the norm throws its own error.
TEST_P(TransformerBlockTest, WrongWidthThrows) {
  EXPECT_THAT(
      [&] {
        block->forward(torch::zeros({2, 5, 9}));
      },
      throws<c10::ValueError>("expects (B, T, E) or (T, E) with E = 8, found [2, 5, 9]"));
}

}  // namespace
}  // namespace attend
