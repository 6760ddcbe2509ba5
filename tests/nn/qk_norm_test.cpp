#include "attend/nn/qk_norm.h"

#include "support/heads.h"
#include "support/modules.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

/// Reference: RMS norm of each row of `x` (..., D), in plain loops.
torch::Tensor normed_rows(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  auto result = x.clone();
  auto rows = result.view({-1, x.size(-1)});
  for (int64_t i = 0; i < rows.size(0); ++i) {
    auto* row = rows[i].data_ptr<double>();
    double sum = 0.0;
    for (int64_t d = 0; d < x.size(-1); ++d) sum += row[d] * row[d];
    const double length = std::sqrt(sum / static_cast<double>(x.size(-1)) + eps);
    for (int64_t d = 0; d < x.size(-1); ++d) row[d] *= weight[d].item<double>() / length;
  }
  return result;
}

TEST(QKNorm, MatchesReferenceInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 10; ++i) {
    auto attention = randomized_attention(draw_attention_options().add(qk_norm(rms_norm(1e-3))));
    const auto x = torch::randn({2, draw(1, 5), attention->options.embed_dim()}, torch::kDouble);
    const auto in_loops = [&] {
      const auto [q, k, v] = project_heads(attention, x);
      const auto query = normed_rows(q, parameter_of(*attention, "qk_norm.query.weight"), 1e-3);
      const auto key = normed_rows(k, parameter_of(*attention, "qk_norm.key.weight"), 1e-3);
      return join_heads(attention, attention_in_loops(query, key, v, {.causal = true}).output);
    };
    EXPECT_TRUE(within_rounding(attention->forward(x, {.causal = true}).output,
                                leaves_of(*attention, {x}), in_loops));
  }
}

TEST(QKNorm, ScoresAreInvariantToTheScaleOfTheProjections) {
  auto attention = randomized_attention(MultiheadAttentionOptions(8, 2).bias(false).add(qk_norm()));
  const auto x = torch::randn({2, 5, 8}, torch::kDouble);
  const auto before = attention->forward(x).output;
  const torch::NoGradGuard no_grad;
  attention->qkv->weight.narrow(0, 0, 16).mul_(1000.0);  // the rows of queries and keys
  EXPECT_TRUE(close(attention->forward(x).output, before, 1e-9));
}

TEST(QKNorm, AppliesToCrossAttention) {
  auto attention = randomized_attention(MultiheadAttentionOptions(8, 2).add(qk_norm()));
  const auto x = torch::randn({2, 5, 8}, torch::kDouble);
  EXPECT_TRUE(close(attention->cross(x, x, x).output, attention->forward(x).output, 1e-12));
}

TEST(QKNorm, StateDictHasDocumentedKeys) {
  EXPECT_THAT(state_names(*QKNorm(4, rms_norm())),
              testing::ElementsAre("query.weight", "key.weight"));
  EXPECT_THAT(state_names(*QKNorm(4, layer_norm())),
              testing::ElementsAre("query.weight", "query.bias", "key.weight", "key.bias"));
}

TEST(QKNorm, PrettyPrintShowsHeadDim) {
  EXPECT_THAT(printed(*QKNorm(4, rms_norm())), testing::StartsWith("attend::QKNorm(head_dim=4)"));
}

TEST(QKNormErrors, InvalidOptionsThrow) {
  EXPECT_THAT([] { QKNorm(0, rms_norm()); },
              throws<c10::ValueError>("head_dim (0) must be positive"));
  EXPECT_THAT(
      [] { MultiheadAttention(MultiheadAttentionOptions(8, 2).add(qk_norm({}))); },
      throws<c10::ValueError>("norm of qk_norm must not be an empty factory: set it, e.g. to"));
}

}  // namespace
}  // namespace attend
