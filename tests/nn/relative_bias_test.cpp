#include "attend/nn/relative_bias.h"

#include "attend/nn/multihead_attention.h"
#include "attend/nn/transformer_encoder.h"
#include "support/close.h"
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

TEST(RelativeBias, GradientOfBFloat16IsASumInFloat32) {
  const FixedSeed seed;
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(relative_bias()));
  attention->to(torch::kBFloat16);
  const auto x = torch::randn({1000, 8}, torch::kBFloat16);
  const auto weight = torch::randn({1000, 8}, torch::kBFloat16);
  const auto gradient = [&](torch::Dtype dtype) {
    attention->to(dtype);
    attention->zero_grad();
    const auto y = attention->forward(x.to(dtype), {.causal = true}).output;
    (y * weight.to(dtype)).sum().backward();
    return attention->named_parameters()["relative_bias.bias.weight"].grad().to(torch::kDouble);
  };
  const auto found = gradient(torch::kBFloat16);
  const auto expected = gradient(torch::kDouble);
  EXPECT_LT((found - expected).norm().item<double>(), 0.05 * expected.norm().item<double>());
}

TEST(RelativeBias, PrettyPrintShowsOptions) {
  const RelativeBias bias(AttentionDims{8, 2, 2, 4}, RelativeBiasOptions{.bidirectional = false});
  EXPECT_THAT(printed(*bias),
              testing::StartsWith("attend::RelativeBias(num_buckets=32, max_distance=128, "
                                  "bidirectional=false, use_first=false)"));
}

TEST(RelativeBiasErrors, InvalidNumBucketsThrows) {
  const auto options = MultiheadAttentionOptions(8, 2).add(relative_bias({.num_buckets = 3}));
  EXPECT_THAT([&] { MultiheadAttention attention(options); },
              throws<c10::ValueError>("num_buckets (3) must be an even number of at least 4"));
}

TEST(SharedRelativeBias, UsesTheTableOfTheFirstLayer) {
  const FixedSeed seed;
  const auto stack_with = [](bool shared) {
    return TransformerEncoderOptions({8, 2}, 3).per_layer(
        [=](int64_t layer, TransformerBlockOptions& block) {
          block.attention().add(shared && layer > 0 ? shared_relative_bias() : relative_bias());
        });
  };
  TransformerEncoder shared(stack_with(true));
  TransformerEncoder separate(stack_with(false));
  shared->to(torch::kDouble);
  separate->to(torch::kDouble);
  {
    const torch::NoGradGuard no_grad;
    const auto source = shared->named_parameters();
    const auto table = source["blocks.0.attention.relative_bias.bias.weight"].normal_();
    for (auto& item : separate->named_parameters()) {
      const auto* same = source.find(item.key());
      item.value().copy_(same != nullptr ? *same : table);
    }
  }
  const auto x = torch::randn({2, 5, 8}, torch::kDouble);
  const auto upstream = torch::randn_like(x);
  for (auto* each : {&shared, &separate}) (*each)->forward(x).backward(upstream);
  EXPECT_TRUE(close(shared->forward(x), separate->forward(x), 1e-12));
  auto gradient = torch::zeros({32, 2}, torch::kDouble);
  for (const auto& item : separate->named_parameters()) {
    if (item.key().ends_with("relative_bias.bias.weight")) gradient += item.value().grad();
  }
  EXPECT_TRUE(
      close(shared->named_parameters()["blocks.0.attention.relative_bias.bias.weight"].grad(),
            gradient, 1e-12));
}

TEST(SharedRelativeBias, RequiresATableOfTheSameShapeInTheFirstLayer) {
  const auto x = torch::randn({5, 8});
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(shared_relative_bias()));
  EXPECT_THAT([&] { attention->forward(x); },
              throws<c10::ValueError>("requires a stack whose first layer has a relative_bias"));
  TransformerEncoder encoder(TransformerEncoderOptions({8, 2}, 2).per_layer(
      [](int64_t layer, TransformerBlockOptions& block) {
        block.attention().add(layer == 0 ? relative_bias({.num_buckets = 16})
                                         : shared_relative_bias());
      }));
  EXPECT_THAT(
      [&] { encoder->forward(x); },
      throws<c10::ValueError>(
          "has a table [16, 2], shared_relative_bias expects (num_buckets, num_heads) = [32, 2]"));
}

}  // namespace
}  // namespace attend
