// The last part of the text "Basic Self-Attention": the transformer block and its order.
#include "attend/nn/transformer_block.h"
#include "support/close.h"
#include "support/seed.h"

#include <torch/nn/init.h>

namespace attend {
namespace {

struct BlockOrder : FixedSeed, testing::Test {
  BlockOrder() {
    // Fresh layer norms are all alike and would hide that one stands for the other.
    for (auto* norm : {&post->norm1, &post->norm2, &pre->norm1, &pre->norm2}) {
      torch::nn::init::uniform_((*norm)->weight, 0.5, 1.5);
      torch::nn::init::uniform_((*norm)->bias);
    }
  }

  torch::NoGradGuard no_grad;
  TransformerBlock post{TransformerBlockOptions(8, 2).norm_order(NormOrder::post)};
  TransformerBlock pre{TransformerBlockOptions(8, 2).norm_order(NormOrder::pre)};
  torch::Tensor x = torch::randn({2, 5, 8});
};

// "In sequence: a self attention layer, layer normalization, a feed forward layer, and another
// layer normalization. Residual connections are added around both, before the normalization."
TEST_F(BlockOrder, PostNormIsTheOrderThatTheTextDraws) {
  const auto attended = post->norm1(x + post->attention->forward(x).output);
  const auto expected = post->norm2(attended + post->feed_forward(attended));
  EXPECT_TRUE(close(post->forward(x), expected, 1e-6));
}

// "The order of the various components is not set in stone."
TEST_F(BlockOrder, PreNormNormalisesWhatEntersABranch) {
  const auto attended = x + pre->attention->forward(pre->norm1(x)).output;
  const auto expected = attended + pre->feed_forward(pre->norm2(attended));
  EXPECT_TRUE(close(pre->forward(x), expected, 1e-6));
}

TEST_F(BlockOrder, PostNormLeavesEachVectorNormalised) {
  TransformerBlock fresh(TransformerBlockOptions(8, 2).norm_order(NormOrder::post));
  const auto y = fresh->forward(x);
  EXPECT_TRUE(close(y.mean(-1), torch::zeros({2, 5}), 1e-6));
  EXPECT_TRUE(close(y.var(-1, /*unbiased=*/false), torch::ones({2, 5}), 1e-3));
}

// "A single MLP applied independently to each vector."
TEST_F(BlockOrder, TheFeedForwardLayerTreatsEachVectorByItself) {
  const auto whole = post->feed_forward(x);
  for (int64_t t = 0; t < 5; ++t) {
    EXPECT_TRUE(close(post->feed_forward(x.slice(1, t, t + 1)), whole.slice(1, t, t + 1), 1e-6));
  }
}

TEST_F(BlockOrder, TheBlockMixesVectorsThroughAttentionAlone) {
  // Each vector seeing only itself, the block treats each by itself too.
  const AttentionArgs alone{.mask = torch::eye(5).to(torch::kBool)};
  const auto whole = post->forward(x, alone);
  EXPECT_TRUE(close(post->forward(x.slice(1, 2, 3)), whole.slice(1, 2, 3), 1e-6));
  EXPECT_FALSE(torch::allclose(post->forward(x), whole));
}

}  // namespace
}  // namespace attend
