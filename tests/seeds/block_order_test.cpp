// The last part of the text "Basic Self-Attention": the transformer block and its order.
#include "attend/nn/transformer_block.h"
#include "support/close.h"
#include "support/seed.h"

#include <torch/nn/init.h>

#include <string>

namespace attend {
namespace {

/// A block of the order, and its modules by name.
struct Ordered {
  explicit Ordered(NormOrder order) : block(options(order)) {
    // Fresh layer norms are all alike and would hide that one stands for the other.
    for (const auto& module : block->modules()) {
      auto* norm = module->as<LayerNorm>();
      if (norm == nullptr) continue;
      torch::nn::init::uniform_(norm->weight, 0.5, 1.5);
      torch::nn::init::uniform_(norm->bias);
    }
  }

  static TransformerBlockOptions options(NormOrder order) {
    TransformerBlockOptions options(8, 2);
    options.residual().norm_order(order);
    return options;
  }

  torch::Tensor attend(const torch::Tensor& x) { return block->attention->forward(x).output; }
  torch::Tensor feed(const torch::Tensor& x) { return block->feed_forward.forward(x); }
  torch::Tensor norm(const std::string& name, const torch::Tensor& x) {
    return block->named_children()[name]->as<LayerNorm>()->forward(x);
  }

  TransformerBlock block;
};

struct BlockOrder : FixedSeed, testing::Test {
  torch::NoGradGuard no_grad;
  torch::Tensor x = torch::randn({2, 5, 8});
};

// "In sequence: a self attention layer, layer normalization, a feed forward layer, and another
// layer normalization. Residual connections are added around both, before the normalization."
TEST_F(BlockOrder, PostNormIsTheOrderThatTheTextDraws) {
  Ordered post(NormOrder::post);
  const auto attended = post.norm("norm1", x + post.attend(x));
  const auto expected = post.norm("norm2", attended + post.feed(attended));
  EXPECT_TRUE(close(post.block->forward(x), expected, 1e-6));
}

// "The order of the various components is not set in stone."
TEST_F(BlockOrder, PreNormNormalisesWhatEntersABranch) {
  Ordered pre(NormOrder::pre);
  const auto attended = x + pre.attend(pre.norm("norm1", x));
  const auto expected = attended + pre.feed(pre.norm("norm2", attended));
  EXPECT_TRUE(close(pre.block->forward(x), expected, 1e-6));
}

TEST_F(BlockOrder, SandwichNormNormalisesWhatLeavesABranchToo) {
  Ordered sandwich(NormOrder::sandwich);
  const auto attended = x + sandwich.norm("norm1_out", sandwich.attend(sandwich.norm("norm1", x)));
  const auto fed = sandwich.feed(sandwich.norm("norm2", attended));
  const auto expected = attended + sandwich.norm("norm2_out", fed);
  EXPECT_TRUE(close(sandwich.block->forward(x), expected, 1e-6));
}

TEST_F(BlockOrder, ParallelBranchesShareOneNormAndDoNotSeeEachOther) {
  Ordered parallel(NormOrder::parallel);
  const auto normalised = parallel.norm("norm1", x);
  const auto expected = x + parallel.attend(normalised) + parallel.feed(normalised);
  EXPECT_TRUE(close(parallel.block->forward(x), expected, 1e-6));
}

TEST_F(BlockOrder, PostNormLeavesEachVectorNormalised) {
  TransformerBlock fresh(Ordered::options(NormOrder::post));
  const auto y = fresh->forward(x);
  EXPECT_TRUE(close(y.mean(-1), torch::zeros({2, 5}), 1e-6));
  EXPECT_TRUE(close(y.var(-1, /*unbiased=*/false), torch::ones({2, 5}), 1e-3));
}

// "A single MLP applied independently to each vector."
TEST_F(BlockOrder, TheFeedForwardLayerTreatsEachVectorByItself) {
  Ordered post(NormOrder::post);
  const auto whole = post.feed(x);
  for (int64_t t = 0; t < 5; ++t) {
    EXPECT_TRUE(close(post.feed(x.slice(1, t, t + 1)), whole.slice(1, t, t + 1), 1e-6));
  }
}

TEST_F(BlockOrder, TheBlockMixesVectorsThroughAttentionAlone) {
  Ordered post(NormOrder::post);
  // Each vector seeing only itself, the block treats each by itself too.
  const AttentionArgs alone{.mask = torch::eye(5).to(torch::kBool)};
  const auto whole = post.block->forward(x, alone);
  EXPECT_TRUE(close(post.block->forward(x.slice(1, 2, 3)), whole.slice(1, 2, 3), 1e-6));
  EXPECT_FALSE(torch::allclose(post.block->forward(x), whole));
}

}  // namespace
}  // namespace attend
