#include "attend/nn/transformer_encoder.h"

#include "attend/nn/value_residual.h"
#include "attend/ops/attention_recorder.h"
#include "support/close.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <torch/nn/modules/dropout.h>

// The options of the blocks are tested in models/stack_config_test.cpp.
namespace attend {
namespace {

struct TransformerEncoderTest : FixedSeed, testing::Test {
  TransformerBlockOptions block{8, 2};
  torch::Tensor x = torch::randn({2, 5, 8});
};

TEST_F(TransformerEncoderTest, EqualsItsBlocksInSequenceThenTheNorm) {
  for (const bool final_norm : {true, false}) {
    TransformerEncoder encoder(TransformerEncoderOptions(block, 3).final_norm(final_norm));
    auto h = x;
    for (const auto& child : *encoder->blocks) {
      h = child->as<TransformerBlock>()->forward(h, {.causal = true});
    }
    if (final_norm) h = torch::layer_norm(h, {8});
    EXPECT_TRUE(close(encoder->forward(x, {.causal = true}), h, 1e-6));
  }
}

TEST_F(TransformerEncoderTest, MakesACacheForItsLayers) {
  const torch::NoGradGuard no_grad;
  for (const auto dtype : {torch::kFloat, torch::kDouble}) {
    block.attention() = MultiheadAttentionOptions(8, 4).num_kv_heads(2).head_dim(3);
    TransformerEncoder encoder(block, 3);
    encoder->to(dtype);
    const auto input = x.to(dtype);
    auto cache = encoder->make_cache(2, 5);
    EXPECT_EQ(cache.max_seq_len(), 5);
    std::vector<torch::Tensor> parts;
    for (const auto& part : input.split({3, 1, 1}, 1)) {
      cache.extend(part.size(1));
      parts.push_back(encoder->forward(part, {.causal = true}, {.cache = &cache}));
    }
    const auto y = torch::cat(parts, 1);
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(close(y, encoder->forward(input, {.causal = true}), 1e-5));
  }
}

TEST_F(TransformerEncoderTest, StateDictHasDocumentedKeys) {
  block.attention().bias(false);
  block.feed_forward().bias(false);
  block.residual().norm(rms_norm());
  EXPECT_THAT(state_names(*TransformerEncoder(TransformerEncoderOptions(block, 1))),
              testing::ElementsAre("blocks.0.attention.qkv.weight", "blocks.0.attention.out.weight",
                                   "blocks.0.norm1.weight", "blocks.0.feed_forward.up.weight",
                                   "blocks.0.feed_forward.down.weight", "blocks.0.norm2.weight",
                                   "norm.weight"));
}

TEST_F(TransformerEncoderTest, MaskAppliesToEachLayer) {
  TransformerEncoder encoder(TransformerEncoderOptions(block, 3));
  AttentionRecorder recorder;
  encoder->forward(x, {.causal = true});
  ASSERT_EQ(recorder.weights().size(), 3U);
  for (const auto& weights : recorder.weights()) {
    EXPECT_TRUE(close(weights.triu(1), torch::zeros({2, 2, 5, 5}), 0.0));
  }
}

// The rule in docs/modules.md.
TEST_F(TransformerEncoderTest, HugePaddingHasNoEffectIfItIsFilledWithZeros) {
  const auto is_token =
      torch::tensor({{true, true, true, false, false}, {true, true, true, true, true}});
  const auto is_padding = is_token.logical_not().unsqueeze(-1);
  const auto padded = x.masked_fill(is_padding, 1e20);
  for (const auto order : {NormOrder::pre, NormOrder::post, NormOrder::sandwich}) {
    block.residual().norm_order(order);
    TransformerEncoder encoder(TransformerEncoderOptions(block, 3));
    const auto real = [&](const torch::Tensor& in) {
      return encoder->forward(in, {.key_mask = is_token})[0].narrow(0, 0, 3);
    };
    const auto expected = encoder->forward(x[0].narrow(0, 0, 3));
    EXPECT_TRUE(close(real(padded.masked_fill(is_padding, 0.0)), expected, 1e-5));
    EXPECT_TRUE(real(padded).isnan().all().item<bool>());
  }
}

TEST_F(TransformerEncoderTest, StochasticDepthIncreasesLinearlyToTheLastLayer) {
  block.residual().stochastic_depth(0.6);
  TransformerEncoder encoder(TransformerEncoderOptions(block, 3));
  std::vector<double> found;
  for (const auto& child : *encoder->blocks) {
    found.push_back(child->as<TransformerBlock>()->options.residual().stochastic_depth());
  }
  EXPECT_THAT(found,
              testing::ElementsAre(testing::DoubleNear(0.2, 1e-12), testing::DoubleNear(0.4, 1e-12),
                                   testing::DoubleNear(0.6, 1e-12)));
}

TEST_F(TransformerEncoderTest, GradientCheckpointingGivesTheSameGradientsWithDropout) {
  block.residual().dropout(0.3);
  block.attention().dropout(0.2);
  block.feed_forward().dropout(0.1);
  TransformerEncoder keeping(TransformerEncoderOptions(block, 3));
  TransformerEncoder recomputing(
      std::dynamic_pointer_cast<TransformerEncoderImpl>(keeping->clone()));
  recomputing->options.gradient_checkpointing(true);
  const auto gradients = [&](TransformerEncoder& encoder) {
    torch::manual_seed(7);
    const auto input = x.clone().requires_grad_();
    encoder->forward(input, {.causal = true}).square().sum().backward();
    Tensors all{input.grad()};
    for (const auto& parameter : encoder->parameters()) all.push_back(parameter.grad());
    return all;
  };
  const auto expected = gradients(keeping);
  const auto found = gradients(recomputing);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(close(found[i], expected[i], 1e-6)) << i;
  }
}

TEST_F(TransformerEncoderTest, RecomputedLayersAreRecordedOnce) {
  TransformerEncoder encoder(TransformerEncoderOptions(block, 3).gradient_checkpointing(true));
  AttentionRecorder recorder;
  encoder->forward(x).sum().backward();
  EXPECT_EQ(recorder.weights().size(), 3U);
}

TEST_F(TransformerEncoderTest, PrettyPrintShowsBlocks) {
  const auto text = printed(*TransformerEncoder(TransformerEncoderOptions(block, 2)));
  EXPECT_THAT(text, testing::StartsWith("attend::TransformerEncoder(num_layers=2"));
  EXPECT_THAT(text, testing::HasSubstr("(1): attend::TransformerBlock("));
}

TEST_F(TransformerEncoderTest, ErrorMessagesNameTheValues) {
  EXPECT_THAT([&] { TransformerEncoder(TransformerEncoderOptions(block, -1)); },
              throws<c10::ValueError>("num_layers (-1) must not be negative"));
  TransformerEncoder encoder(TransformerEncoderOptions(block, 1));
  EXPECT_THAT(
      [&] {
        encoder->forward(torch::zeros({2, 5, 9}));
      },
      throws<c10::ValueError>("expects (B, T, E) or (T, E) with E = 8, found [2, 5, 9]"));
}

}  // namespace
}  // namespace attend
