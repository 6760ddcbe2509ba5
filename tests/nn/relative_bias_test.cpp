#include "attend/nn/relative_bias.h"

#include "attend/nn/multihead_attention.h"
#include "support/modules.h"
#include "support/seed.h"
#include "support/throws.h"

namespace attend {
namespace {

TEST(RelativeBias, StateDictHasDocumentedKeys) {
  const MultiheadAttention attention(
      MultiheadAttentionOptions(8, 2).bias(false).add(relative_bias({.num_buckets = 16})));
  EXPECT_THAT(state_names(*attention),
              testing::ElementsAre("qkv.weight", "out.weight", "relative_bias.bias.weight"));
  EXPECT_EQ(attention->named_parameters()["relative_bias.bias.weight"].sizes(),
            at::IntArrayRef({16, 2}));
}

TEST(RelativeBias, InitialVarianceIsOneOverEmbedDim) {
  const FixedSeed seed;
  const RelativeBias bias(AttentionDims{64, 100, 100, 8}, RelativeBiasOptions{});
  EXPECT_NEAR(bias->bias->weight.mean().item<double>(), 0.0, 0.01);
  EXPECT_NEAR(bias->bias->weight.std().item<double>(), 1.0 / 8, 0.01);
}

TEST(RelativeBias, LargeBiasSelectsItsRelativePosition) {
  const torch::NoGradGuard no_grad;
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(relative_bias()));
  auto table = attention->named_parameters()["relative_bias.bias.weight"];
  table.zero_();
  table[1][0] = 100.0;   // first head: previous token
  table[17][1] = 100.0;  // second head: next token
  const auto weights =
      attention->forward(torch::randn({5, 8}), {.need_weights = true}).weights;  // (H, T, S)
  for (int64_t t = 1; t < 4; ++t) {
    EXPECT_NEAR(weights[0][t][t - 1].item<double>(), 1.0, 1e-6);
    EXPECT_NEAR(weights[1][t][t + 1].item<double>(), 1.0, 1e-6);
  }
}

TEST(RelativeBias, PrettyPrintShowsOptions) {
  const RelativeBias bias(AttentionDims{8, 2, 2, 4}, RelativeBiasOptions{.bidirectional = false});
  EXPECT_THAT(printed(*bias),
              testing::StartsWith("attend::RelativeBias(num_buckets=32, max_distance=128, "
                                  "bidirectional=false)"));
}

TEST(RelativeBiasErrors, InvalidNumBucketsThrows) {
  const auto options = MultiheadAttentionOptions(8, 2).add(relative_bias({.num_buckets = 3}));
  EXPECT_THAT([&] { MultiheadAttention attention(options); },
              throws<c10::ValueError>("num_buckets (3) must be at least 4 and even"));
}

}  // namespace
}  // namespace attend
