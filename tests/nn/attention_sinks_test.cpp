#include "attend/nn/attention_sinks.h"

#include "support/heads.h"
#include "support/modules.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

/// Reference: appends one key and one value, which are zero. Also appends a column to `bias`. In
/// each head, this column contains the logit of the head's sink. The logit is therefore the score
/// of the new key.
torch::Tensor attention_with_sinks_in_loops(const ProjectedHeads& heads, const torch::Tensor& bias,
                                            const torch::Tensor& logits) {
  const auto nothing = torch::zeros_like(heads.key.narrow(2, 0, 1));
  const auto column =
      logits.view({1, -1, 1, 1}).expand({bias.size(0), bias.size(1), bias.size(2), 1});
  return attention_in_loops(heads.query, torch::cat({heads.key, nothing}, 2),
                            torch::cat({heads.value, nothing}, 2),
                            {.mask = torch::cat({bias, column}, -1)})
      .output;
}

TEST(AttentionSinks, MatchReferenceInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 10; ++i) {
    auto attention = randomized_attention(draw_attention_options().add(attention_sinks()));
    const int64_t length = draw(1, 5);
    const auto x = torch::randn({2, length, attention->options.embed_dim()}, torch::kDouble);
    const AttentionArgs args{.mask = torch::rand({length, length}) > 0.4, .causal = true};
    const auto forbidden = args.mask.tril().logical_not();  // (T, T)
    const auto bias =
        torch::zeros({2, attention->options.num_heads(), length, length}, torch::kDouble)
            .masked_fill(forbidden, -INFINITY);
    const auto in_loops = [&] {
      const auto heads = project_heads(attention, x);
      const auto logits = parameter_of(*attention, "attention_sinks.logits");
      return join_heads(attention, attention_with_sinks_in_loops(heads, bias, logits));
    };
    EXPECT_TRUE(
        within_rounding(attention->forward(x, args).output, leaves_of(*attention, {x}), in_loops));
  }
}

struct AttentionSinkOfAHead : FixedSeed, testing::Test {
  MultiheadAttention attention =
      randomized_attention(MultiheadAttentionOptions(8, 2).bias(false).add(attention_sinks()));
  torch::Tensor x = torch::randn({2, 5, 8}, torch::kDouble);
  torch::Tensor logits = attention->named_parameters()["attention_sinks.logits"];

  torch::Tensor weight_sums() {
    return attention->forward(x, {.need_weights = true}).weights.sum(-1);  // (B, H, T)
  }
};

TEST_F(AttentionSinkOfAHead, TakesPartOfTheSoftmax) {
  const torch::NoGradGuard no_grad;
  logits.copy_(torch::tensor({-1e9, 1e9}));
  const auto sums = weight_sums();
  EXPECT_TRUE(close(sums.select(1, 0), torch::ones({2, 5}), 1e-12));
  EXPECT_TRUE(close(sums.select(1, 1), torch::zeros({2, 5}), 1e-12));
}

TEST_F(AttentionSinkOfAHead, GradientIsZeroForFullyMaskedRows) {
  const auto y = attention->forward(x, {.mask = torch::zeros({5, 5}, torch::kBool)}).output;
  EXPECT_TRUE(close(y, torch::zeros({2, 5, 8}), 0.0));
  y.sum().backward();
  EXPECT_TRUE(close(logits.grad(), torch::zeros({2}), 0.0));
}

TEST(AttentionSinks, AreInitializedToZeroWithKeyLogits) {
  AttentionSinks sinks(3);
  EXPECT_THAT(state_names(*sinks), testing::ElementsAre("logits"));
  EXPECT_TRUE(close(sinks->logits, torch::zeros({3}), 0.0));
}

TEST(AttentionSinks, PrettyPrintShowsNumHeads) {
  EXPECT_THAT(printed(*AttentionSinks(3)),
              testing::StartsWith("attend::AttentionSinks(num_heads=3)"));
}

TEST(AttentionSinksErrors, NonPositiveNumHeadsThrows) {
  EXPECT_THAT([] { AttentionSinks(0); }, throws<c10::ValueError>("num_heads (0) must be positive"));
}

}  // namespace
}  // namespace attend
