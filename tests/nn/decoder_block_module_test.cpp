// DecoderBlock as a module: state dict, options, errors.
#include "attend/nn/decoder_block.h"
#include "support/modules.h"
#include "support/throws.h"

namespace attend {
namespace {

TEST(DecoderBlock, StateDictHasDocumentedKeys) {
  auto options = DecoderBlockOptions(8, 2);
  options.attention().bias(false);
  options.cross_attention().bias(false);
  options.feed_forward().bias(false);
  options.residual().norm(rms_norm());
  EXPECT_THAT(state_names(*DecoderBlock(options)),
              testing::ElementsAre("attention.qkv.weight", "attention.out.weight", "norm1.weight",
                                   "cross_attention.qkv.weight", "cross_attention.out.weight",
                                   "norm_cross.weight", "feed_forward.up.weight",
                                   "feed_forward.down.weight", "norm2.weight"));
}

TEST(DecoderBlock, NestedOptionsAreAppliedToSubmodules) {
  auto options = DecoderBlockOptions(8, 2);
  options.attention().head_dim(3);
  options.cross_attention().kdim(5).vdim(5).num_kv_heads(1);
  options.feed_forward().dim_feedforward(7);
  options.residual().dropout(0.5);
  DecoderBlock block(options);
  EXPECT_EQ(block->attention->qkv->weight.sizes(), at::IntArrayRef({3 * 2 * 3, 8}));
  EXPECT_EQ(block->cross_attention->key->weight.sizes(), at::IntArrayRef({4, 5}));
  EXPECT_EQ(block->feed_forward.get<FeedForward>()->options.dim_feedforward(), 7);
  const auto x = torch::randn({2, 3, 8});
  const auto memory = torch::randn({2, 4, 5});
  EXPECT_FALSE(torch::allclose(block->forward(x, memory), block->forward(x, memory)));
  block->eval();
  EXPECT_TRUE(close(block->forward(x, memory), block->forward(x, memory), 0.0));
}

TEST(DecoderBlock, FeedForwardMayBeAMixtureOfExperts) {
  DecoderBlock block(DecoderBlockOptions(8, 2).experts(ExpertsOptions(3)));
  const auto x = torch::randn({2, 3, 8});
  const auto memory = torch::randn({2, 4, 8});
  block->forward(x, memory, {.causal = true}).sum().backward();
  const auto mixture = block->feed_forward.get<MixtureOfExperts>();
  EXPECT_EQ(mixture->experts->size(), 3U);
  EXPECT_TRUE(mixture->router->weight.grad().defined());
  EXPECT_TRUE(mixture->aux_loss.requires_grad());
}

TEST(DecoderBlock, DropoutSetsAllProbabilities) {
  const auto options = DecoderBlockOptions(8, 2).dropout(0.25);
  EXPECT_EQ(options.attention().dropout(), 0.25);
  EXPECT_EQ(options.cross_attention().dropout(), 0.25);
  EXPECT_EQ(options.feed_forward().dropout(), 0.25);
  EXPECT_EQ(options.residual().dropout(), 0.25);
}

TEST(DecoderBlock, PrettyPrintShowsSubmodules) {
  const auto text = printed(*DecoderBlock(8, 2));
  EXPECT_THAT(text, testing::StartsWith("attend::DecoderBlock(norm_order=pre)"));
  EXPECT_THAT(text, testing::HasSubstr("(cross_attention): attend::MultiheadAttention("));
  EXPECT_THAT(text, testing::HasSubstr("(norm_cross): attend::LayerNorm(width=8"));
}

TEST(DecoderBlock, InvalidOptionsThrow) {
  const auto constructor_call = [](const auto& change) {
    return [=] {
      auto options = DecoderBlockOptions(8, 2);
      change(options);
      DecoderBlock block(options);
    };
  };
  EXPECT_THAT(constructor_call([](auto& o) { o.feed_forward() = FeedForwardOptions(6); }),
              throws<c10::ValueError>("feed_forward's embed_dim (6) must equal attention's (8)"));
  EXPECT_THAT(
      constructor_call([](auto& o) { o.cross_attention().embed_dim(6); }),
      throws<c10::ValueError>("cross_attention's embed_dim (6) must equal attention's (8)"));
  EXPECT_THAT(
      constructor_call([](auto& o) { o.cross_attention().kdim(5); }),
      throws<c10::ValueError>("cross_attention's kdim (5) must equal its vdim (8): both are"));
  EXPECT_THAT(constructor_call([](auto& o) { o.residual().dropout(1.0); }),
              throws<c10::ValueError>("dropout (1) must be in [0, 1)"));
}

// Tests pre-norm and post-norm. With pre-norm, the first module that gets x is a norm. The block
// must check the width before the norm throws its own error.
TEST(DecoderBlock, WrongWidthsThrow) {
  for (const auto order : {NormOrder::pre, NormOrder::post}) {
    auto options = DecoderBlockOptions(8, 2);
    options.residual().norm_order(order);
    options.cross_attention().kdim(6).vdim(6);
    DecoderBlock block(options);
    const auto forward_call = [&](at::IntArrayRef x, at::IntArrayRef memory) {
      return [&block, x = torch::zeros(x), memory = torch::zeros(memory)] {
        block->forward(x, memory);
      };
    };
    EXPECT_THAT(forward_call({2, 5, 9}, {2, 5, 6}),
                throws<c10::ValueError>(
                    "DecoderBlock expects (B, T, E) or (T, E) with E = 8, found [2, 5, 9]"));
    EXPECT_THAT(forward_call({2, 5, 8}, {2, 5, 8}),
                throws<c10::ValueError>("memory must be (B, S, 6) or (S, 6), found [2, 5, 8]"));
  }
}

}  // namespace
}  // namespace attend
