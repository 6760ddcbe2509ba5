#include "attend/nn/alibi.h"

#include "attend/nn/multihead_attention.h"
#include "support/modules.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

TEST(Alibi, HasNoState) {
  const MultiheadAttention attention(MultiheadAttentionOptions(8, 2).bias(false).add(alibi()));
  EXPECT_THAT(state_names(*attention), testing::ElementsAre("qkv.weight", "out.weight"));
  EXPECT_TRUE(attention->named_children().contains("alibi"));
}

TEST(Alibi, WeightsOfEqualKeysDecayWithDistance) {
  const torch::NoGradGuard no_grad;
  MultiheadAttention attention(MultiheadAttentionOptions(8, 2).add(alibi()));
  attention->qkv->weight.zero_();
  const auto weights =
      attention->forward(torch::randn({4, 8}), {.causal = true, .need_weights = true}).weights;
  const auto last = weights[0][3];  // (S), of the head with slope 1/16
  for (int64_t s = 0; s < 3; ++s) {
    EXPECT_NEAR((last[s] / last[s + 1]).item<double>(), std::exp(-1.0 / 16), 1e-6);
  }
}

TEST(Alibi, PrettyPrintShowsNumHeads) {
  EXPECT_EQ(printed(*Alibi(6)), "attend::Alibi(num_heads=6)");
}

TEST(Alibi, NonPositiveNumHeadsThrows) {
  EXPECT_THAT([] { Alibi(0); }, throws<c10::ValueError>("num_heads (0) must be positive"));
}

}  // namespace
}  // namespace attend
