// Tests of transformer blocks and their norm order, which the last part of the tutorial "Basic
// Self-Attention" describes. Comments in quotation marks are quotations from the tutorial.
#include "attend/nn/transformer_block.h"
#include "support/close.h"
#include "support/seed.h"

#include <torch/nn/init.h>

#include <string>

namespace attend {
namespace {

/// A block with the given norm order, with access to its submodules by name.
struct OrderedBlock {
  explicit OrderedBlock(NormOrder order) : block(options(order)) {
    // Each norm gets different weights, so that a norm in the wrong place changes the result.
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

  torch::Tensor run_attention(const torch::Tensor& x) {
    return block->attention->forward(x).output;
  }
  torch::Tensor run_feed_forward(const torch::Tensor& x) { return block->feed_forward.forward(x); }
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
TEST_F(BlockOrder, PostNormMatchesTheOriginalOrder) {
  OrderedBlock post(NormOrder::post);
  const auto attended = post.norm("norm1", x + post.run_attention(x));
  const auto expected = post.norm("norm2", attended + post.run_feed_forward(attended));
  EXPECT_TRUE(close(post.block->forward(x), expected, 1e-6));
}

// "The order of the various components is not set in stone."
TEST_F(BlockOrder, PreNormNormalizesTheInputOfEachBranch) {
  OrderedBlock pre(NormOrder::pre);
  const auto attended = x + pre.run_attention(pre.norm("norm1", x));
  const auto expected = attended + pre.run_feed_forward(pre.norm("norm2", attended));
  EXPECT_TRUE(close(pre.block->forward(x), expected, 1e-6));
}

TEST_F(BlockOrder, SandwichNormNormalizesInputAndOutputOfEachBranch) {
  OrderedBlock sandwich(NormOrder::sandwich);
  const auto attended =
      x + sandwich.norm("norm1_out", sandwich.run_attention(sandwich.norm("norm1", x)));
  const auto feed_forward_output = sandwich.run_feed_forward(sandwich.norm("norm2", attended));
  const auto expected = attended + sandwich.norm("norm2_out", feed_forward_output);
  EXPECT_TRUE(close(sandwich.block->forward(x), expected, 1e-6));
}

TEST_F(BlockOrder, ParallelBranchesShareOneNorm) {
  OrderedBlock parallel(NormOrder::parallel);
  const auto normalized = parallel.norm("norm1", x);
  const auto expected =
      x + parallel.run_attention(normalized) + parallel.run_feed_forward(normalized);
  EXPECT_TRUE(close(parallel.block->forward(x), expected, 1e-6));
}

TEST_F(BlockOrder, PostNormOutputIsNormalized) {
  TransformerBlock fresh(OrderedBlock::options(NormOrder::post));
  const auto y = fresh->forward(x);
  EXPECT_TRUE(close(y.mean(-1), torch::zeros({2, 5}), 1e-6));
  EXPECT_TRUE(close(y.var(-1, /*unbiased=*/false), torch::ones({2, 5}), 1e-3));
}

// "A single MLP applied independently to each vector."
TEST_F(BlockOrder, FeedForwardIsAppliedToEachPositionSeparately) {
  OrderedBlock post(NormOrder::post);
  const auto whole = post.run_feed_forward(x);
  for (int64_t t = 0; t < 5; ++t) {
    EXPECT_TRUE(close(post.run_feed_forward(x.slice(1, t, t + 1)), whole.slice(1, t, t + 1), 1e-6));
  }
}

TEST_F(BlockOrder, OnlyAttentionMixesPositions) {
  OrderedBlock post(NormOrder::post);
  // With a diagonal mask the block processes each position separately.
  const AttentionArgs alone{.mask = torch::eye(5).to(torch::kBool)};
  const auto whole = post.block->forward(x, alone);
  EXPECT_TRUE(close(post.block->forward(x.slice(1, 2, 3)), whole.slice(1, 2, 3), 1e-6));
  EXPECT_FALSE(torch::allclose(post.block->forward(x), whole));
}

}  // namespace
}  // namespace attend
