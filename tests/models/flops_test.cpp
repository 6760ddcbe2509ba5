#include "attend/models/flops.h"

#include "support/stack_configs.h"
#include "support/throws.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

/// Returns a model in eval mode.
template <typename Model, typename Config>
Model eval_model(const Config& config) {
  Model model(config);
  model->eval();
  return model;
}

constexpr int64_t kVocabSize = 11;
constexpr int64_t kMaxSeqLen = 6;

/// Returns the expected FLOPs per token of one block's attention. The projections and the output
/// gate need 2 FLOPs per weight. For each head and key, the score needs 2 * D FLOPs, and the
/// weighted sum also needs 2 * D.
int64_t expected_attention_flops(const StackConfig& c) {
  const int64_t head = c.head_dim != 0 ? c.head_dim : c.embed_dim / c.num_heads;
  const int64_t num_kv_heads = c.num_kv_heads != 0 ? c.num_kv_heads : c.num_heads;
  const int64_t inner = c.num_heads * head;
  const int64_t projections = c.embed_dim * (inner + 2 * num_kv_heads * head) + inner * c.embed_dim;
  const int64_t gate = c.output_gate ? c.embed_dim * c.num_heads : 0;
  return 2 * (projections + gate + 2 * kMaxSeqLen * inner);
}

int64_t expected_feed_forward_flops(const StackConfig& c) {
  const bool gated = is_gated(std::get<Activation>(c.activation));
  const int64_t one = (gated ? 3 : 2) * c.embed_dim * c.dim_feedforward;
  if (c.num_experts == 0) return 2 * one;
  return 2 * (c.embed_dim * c.num_experts + c.num_experts_per_tok * one);
}

class FlopsOfEachStack : public testing::TestWithParam<NamedStack> {};

TEST_P(FlopsOfEachStack, MatchTheClosedForm) {
  const auto& stack = GetParam().config;
  const auto model = eval_model<LanguageModel>(
      LanguageModelConfig{.vocab_size = kVocabSize, .max_seq_len = kMaxSeqLen, .stack = stack});
  const int64_t block = expected_attention_flops(stack) + expected_feed_forward_flops(stack);
  const int64_t expected = stack.num_layers * block + 2 * stack.embed_dim * kVocabSize;
  EXPECT_DOUBLE_EQ(flops_per_token(model, kMaxSeqLen), static_cast<double>(expected));
}

INSTANTIATE_TEST_SUITE_P(All, FlopsOfEachStack, testing::ValuesIn(each_stack()), NameOfStack());

TEST(Flops, LanguageModelUsesTwoPerWeightAndFourPerKeyAndChannel) {
  const auto model = eval_model<LanguageModel>(
      LanguageModelConfig{.vocab_size = 11,
                          .max_seq_len = 4,
                          .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}});
  // Number of weights: attention 3*8*8 + 8*8, feed-forward network 2*8*32, head 8*11.
  EXPECT_DOUBLE_EQ(flops_per_token(model, 4), 2 * (192 + 64 + 512 + 88) + 4 * 4 * 8);
  EXPECT_DOUBLE_EQ(flops_per_token(model, 1), 2 * (192 + 64 + 512 + 88) + 4 * 1 * 8);
}

TEST(Flops, ClassifierCountsTheHeadOncePerSequence) {
  const auto model = eval_model<SequenceClassifier>(
      SequenceClassifierConfig{.vocab_size = 11,
                               .num_classes = 3,
                               .max_seq_len = 4,
                               .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}});
  EXPECT_DOUBLE_EQ(flops_per_token(model, 4), 2 * (192 + 64 + 512) + 4 * 4 * 8 + 2 * 8 * 3 / 4.0);
}

TEST(Flops, SlidingWindowReducesTheCountOnlyInBlocks) {
  const auto count = [](int64_t length, int64_t window) {
    LanguageModelConfig config{.vocab_size = 11,
                               .max_seq_len = 1024,
                               .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}};
    config.stack.sliding_window = window;
    return flops_per_token(eval_model<LanguageModel>(config), length);
  };
  EXPECT_EQ(count(256, 16), count(256, 0));
  EXPECT_LT(count(1024, 16), count(1024, 0));
}

TEST(Flops, Seq2SeqCountsEncoderAndDecoder) {
  const auto model = eval_model<Seq2Seq>(
      Seq2SeqConfig{.source_vocab_size = 11,
                    .target_vocab_size = 11,
                    .max_seq_len = 4,
                    .stack = {.num_layers = 1, .num_heads = 2, .embed_dim = 8}});
  const int64_t attention = 2 * (192 + 64) + 4 * 4 * 8;
  const int64_t feed_forward = 2 * 512;
  EXPECT_DOUBLE_EQ(flops_per_token(model, 4),
                   (attention + feed_forward) + (2 * attention + feed_forward) + 2 * 88);
}

TEST(Flops, TrainingModeThrows) {
  const LanguageModel model(LanguageModelConfig{.vocab_size = 11, .max_seq_len = 4});
  EXPECT_THAT([&] { flops_per_token(model, 2); },
              throws<c10::ValueError>("flops_per_token requires eval mode, found a model"));
}

TEST(Flops, LengthBeyondMaxSeqLenThrows) {
  const auto model =
      eval_model<LanguageModel>(LanguageModelConfig{.vocab_size = 11, .max_seq_len = 4});
  EXPECT_THAT([&] { flops_per_token(model, 5); }, throws<c10::ValueError>("length (5)"));
  EXPECT_THAT([&] { flops_per_token(model, 0); }, throws<c10::ValueError>("max_seq_len (4)"));
}

}  // namespace
}  // namespace attend
