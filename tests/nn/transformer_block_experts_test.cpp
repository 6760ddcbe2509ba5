// TransformerBlock with a mixture of experts as its feed-forward.
#include "attend/nn/transformer_block.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

namespace attend {
namespace {

TransformerBlockOptions experts_block_options(int64_t embed_dim, int64_t dim_feedforward) {
  TransformerBlockOptions options(embed_dim, 2);
  options.feed_forward()
      .dim_feedforward(dim_feedforward)
      .activation(Activation::swiglu)
      .bias(false);
  options.experts(ExpertsOptions(3).num_experts_per_tok(2));
  return options;
}

struct TransformerBlockWithExperts : FixedSeed, testing::Test {
  TransformerBlock block{experts_block_options(8, 5)};
  torch::Tensor x = torch::randn({2, 5, 8});
};

TEST_F(TransformerBlockWithExperts, SecondBranchIsTheMixtureOfExperts) {
  const auto norm = [&](const char* name, const torch::Tensor& in) {
    return block->named_children()[name]->as<LayerNorm>()->forward(in);
  };
  auto mixture = block->feed_forward.get<MixtureOfExperts>();
  const auto attended = x + block->attention->forward(norm("norm1", x)).output;
  const auto expected = attended + mixture(norm("norm2", attended));
  EXPECT_TRUE(close(block->forward(x), expected, 1e-6));
}

TEST_F(TransformerBlockWithExperts, FeedForwardOptionsApplyToEachExpert) {
  const auto mixture = block->feed_forward.get<MixtureOfExperts>();
  EXPECT_EQ(mixture->experts->size(), 3U);
  for (const auto& child : *mixture->experts) {
    const auto& expert = *child->as<FeedForward>();
    EXPECT_EQ(expert.up->weight.sizes(), at::IntArrayRef({10, 8}));
    EXPECT_FALSE(expert.up->bias.defined());
  }
}

TEST_F(TransformerBlockWithExperts, StateDictHasDocumentedKeys) {
  auto options = experts_block_options(8, 5);
  options.experts(1);
  options.experts()->num_experts_per_tok(1);
  options.attention().bias(false);
  EXPECT_THAT(state_names(*TransformerBlock(options)),
              testing::ElementsAre(
                  "attention.qkv.weight", "attention.out.weight", "norm1.weight", "norm1.bias",
                  "feed_forward.router.weight", "feed_forward.experts.0.up.weight",
                  "feed_forward.experts.0.down.weight", "norm2.weight", "norm2.bias"));
}

TEST_F(TransformerBlockWithExperts, AuxLossHasAGradientForTheRouter) {
  block->forward(x);
  router_aux_loss(*block).backward();
  const auto router = block->feed_forward.get<MixtureOfExperts>()->router;
  EXPECT_TRUE(router->weight.grad().ne(0).any().item<bool>());
}

TEST_F(TransformerBlockWithExperts, GradientsEqualFiniteDifferences) {
  TransformerBlock small(experts_block_options(4, 3));
  small->to(torch::kDouble);
  auto leaves = small->parameters();
  leaves.push_back(torch::randn({2, 3, 4}, torch::kDouble).requires_grad_());
  EXPECT_TRUE(
      gradients_match([&] { return small->forward(leaves.back(), {.causal = true}); }, leaves));
}

TEST_F(TransformerBlockWithExperts, CloneAndSaveLoadRoundTrip) {
  const auto run = [&](TransformerBlock module) { return module->forward(x, {.causal = true}); };
  expect_clone_and_save_load_work(block, TransformerBlock(experts_block_options(8, 5)), run);
}

TEST_F(TransformerBlockWithExperts, TraceGeneralizesToOtherSizes) {
  freeze(*block);
  const auto run = [&](const Tensors& in) { return block->forward(in[0], {.causal = true}); };
  const auto traced = trace(run, {torch::randn({2, 3, 8})});
  for (const auto& other : {torch::randn({1, 9, 8}), torch::randn({3, 1, 8})}) {
    EXPECT_TRUE(close(traced({other}), run({other}), 1e-5)) << other.sizes();
  }
}

TEST_F(TransformerBlockWithExperts, MoreExpertsPerTokenThanExpertsThrows) {
  auto options = experts_block_options(8, 5);
  options.experts(ExpertsOptions(2).num_experts_per_tok(3));
  EXPECT_THAT([&] { TransformerBlock{options}; },
              throws<c10::ValueError>("num_experts_per_tok (3) must be at most num_experts (2)"));
}

}  // namespace
}  // namespace attend
