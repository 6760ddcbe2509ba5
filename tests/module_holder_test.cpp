#include "attend/module_holder.h"

#include "attend/models/language_model.h"
#include "attend/nn/encoder_decoder.h"
#include "attend/nn/self_attention.h"
#include "support/close.h"
#include "support/seed.h"

namespace attend {
namespace {

/// Tests of operator() with braced arguments. The operator() of LibTorch's own module holders does
/// not accept them.
struct ModuleHolder : FixedSeed, testing::Test {
  torch::Tensor x = torch::randn({2, 5, 8});
  torch::Tensor memory = torch::randn({2, 3, 8});
  torch::Tensor key_mask = torch::rand({2, 3}) > 0.3;
};

TEST_F(ModuleHolder, AttentionTakesBracedArguments) {
  const MultiheadAttention attention(8, 2);
  EXPECT_TRUE(close(attention(x, {.causal = true}).output,
                    attention.ptr()->forward(x, {.causal = true}).output, 0.0));
  EXPECT_TRUE(attention(x, {.need_weights = true}).weights.defined());
  const SelfAttention self_attention(8);
  EXPECT_TRUE(self_attention(x, {.need_weights = true}).weights.defined());
}

TEST_F(ModuleHolder, BlocksTakeBracedArguments) {
  const TransformerBlock block(8, 2);
  EXPECT_TRUE(close(block(x, {.causal = true}), block.ptr()->forward(x, {.causal = true}), 0.0));
  EXPECT_FALSE(torch::allclose(block(x, {.causal = true}), block(x)));
  const DecoderBlock decoder_block(8, 2);
  EXPECT_TRUE(close(
      decoder_block(x, memory, {.causal = true}, {.key_mask = key_mask}),
      decoder_block.ptr()->forward(x, memory, {.causal = true}, {.key_mask = key_mask}), 0.0));
}

TEST_F(ModuleHolder, StacksTakeBlockOptionsAndBracedArguments) {
  const TransformerEncoder encoder(TransformerBlockOptions(8, 2), 3);
  EXPECT_EQ(encoder.ptr()->blocks->size(), 3U);
  EXPECT_TRUE(
      close(encoder(x, {.causal = true}), encoder.ptr()->forward(x, {.causal = true}), 0.0));
  const TransformerDecoder decoder(DecoderBlockOptions(8, 2), 2);
  EXPECT_EQ(decoder.ptr()->blocks->size(), 2U);
  EXPECT_TRUE(close(decoder(x, memory, {.causal = true}, {.key_mask = key_mask}),
                    decoder.ptr()->forward(x, memory, {.causal = true}, {.key_mask = key_mask}),
                    0.0));
  const EncoderDecoder transformer(
      EncoderDecoderOptions({TransformerBlockOptions(8, 2), 1}, {DecoderBlockOptions(8, 2), 1}));
  EXPECT_TRUE(close(transformer(memory, x, {.key_mask = key_mask}, {.causal = true}),
                    transformer.ptr()->forward(memory, x, {.key_mask = key_mask}, {.causal = true}),
                    0.0));
}

TEST_F(ModuleHolder, LanguageModelTakesBracedArguments) {
  const LanguageModel model(LanguageModelConfig{.vocab_size = 5});
  const auto tokens = torch::randint(0, 5, {2, 4}, torch::kLong);
  const auto mask = torch::tensor({{1, 1, 1, 0}, {1, 1, 0, 0}}).to(torch::kBool);
  EXPECT_TRUE(close(model(tokens, {.key_mask = mask}),
                    model.ptr()->forward(tokens, {.key_mask = mask}), 0.0));
}

}  // namespace
}  // namespace attend
