#include "attend/nn/rotary.h"

#include "attend/nn/multihead_attention.h"
#include "support/modules.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

TEST(Rotary, HasNoState) {
  const MultiheadAttention attention(MultiheadAttentionOptions(8, 2).bias(false).add(rotary()));
  EXPECT_THAT(state_names(*attention), testing::ElementsAre("qkv.weight", "out.weight"));
  EXPECT_TRUE(attention->named_children().contains("rotary"));
}

TEST(Rotary, ShiftedPositionsHaveNoEffect) {
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(rotary()));
  attention->to(torch::kDouble);
  const auto x = torch::randn({2, 4, 8}, torch::kDouble);
  const auto y = attention->forward(x).output;
  const auto shifted = attention->forward(x, {.positions = torch::arange(1000, 1004)}).output;
  EXPECT_TRUE(close(shifted, y, 1e-9));
  const auto stretched = attention->forward(x, {.positions = torch::arange(4) * 3}).output;
  EXPECT_FALSE(close(stretched, y, 1e-3));
}

TEST(Rotary, RotatesKeysByKeyPositions) {
  Rotary part(8);
  const auto q = torch::randn({2, 2, 3, 8});
  const auto k = torch::randn({2, 2, 5, 8});
  const auto positions = torch::tensor({7, 8, 9});
  const auto key_positions = torch::tensor({9, 0, 4, 2, 7});
  AttentionContext context{.query = q, .key = k, .value = k};
  context.args.positions = positions;
  context.args.key_positions = key_positions;
  part->after_projection(context);
  EXPECT_TRUE(close(context.query, apply_rotary(q, positions), 1e-6));
  EXPECT_TRUE(close(context.key, apply_rotary(k, key_positions), 1e-6));
}

TEST(Rotary, YarnAttentionScalingSquaredMultipliesTheScores) {
  const RotaryOptions plain{.scaling = RotaryScaling::yarn,
                            .factor = 4.0,
                            .original_max_seq_len = 64,
                            .attention_factor = 1};
  auto louder = plain;
  louder.attention_factor = 1.5;
  auto make = MultiheadAttentionOptions(8, 2).add(rotary(louder));
  MultiheadAttention with_amplitude(make);
  MultiheadAttention with_scale(make.hooks({rotary(plain)}).scale(1.5 * 1.5 / std::sqrt(4.0)));
  for (auto& parameter : with_scale->named_parameters()) {
    const torch::NoGradGuard no_grad;
    parameter.value().copy_(with_amplitude->named_parameters()[parameter.key()]);
  }
  const auto x = torch::randn({2, 5, 8});
  EXPECT_TRUE(close(with_amplitude->forward(x).output, with_scale->forward(x).output, 1e-6));
}

TEST(Rotary, CastToHalfDtypeAndBackIsLossless) {
  MultiheadAttention attention(MultiheadAttentionOptions(64, 1).bias(false).add(rotary()));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : attention->parameters()) {
    parameter.copy_(parameter.to(torch::kBFloat16));
  }
  const auto x = torch::randn({3, 64});
  const AttentionArgs late{.positions = torch::tensor({0, 777, 5000})};
  const auto before = attention->forward(x, late).output;
  attention->to(torch::kBFloat16);
  attention->to(torch::kFloat);
  EXPECT_TRUE(close(attention->forward(x, late).output, before, 0.0));
}

TEST(Rotary, PrettyPrintShowsOptions) {
  EXPECT_EQ(printed(*Rotary(8)),
            "attend::Rotary(head_dim=8, rotary_dim=8, theta=10000, interleaved=false, "
            "scaling=none, factor=1)");
}

TEST(RotaryErrors, InvalidOptionsAndPositionsThrow) {
  EXPECT_THAT([] { MultiheadAttention(MultiheadAttentionOptions(6, 2).add(rotary())); },
              throws<c10::ValueError>("rotary_dim (3) must be even, positive and at most head_dim "
                                      "(3)"));
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(rotary()));
  EXPECT_THAT(
      [&] {
        attention->forward(torch::zeros({2, 3, 8}), {.positions = torch::arange(4)});
      },
      throws<c10::ValueError>("positions [4] must be (3) or (2, 3), one entry per token"));
}

}  // namespace
}  // namespace attend
