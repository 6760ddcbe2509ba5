#include "attend/nn/soft_cap.h"

#include "support/heads.h"
#include "support/modules.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <cmath>

namespace attend {
namespace {

/// Reference: the bias that turns the scores query * key * scale into capped scores.
torch::Tensor bias_that_caps(const torch::Tensor& query, const torch::Tensor& key, double scale,
                             double cap) {
  auto bias =
      torch::zeros({query.size(0), query.size(1), query.size(2), key.size(2)}, torch::kDouble);
  auto numbers = bias.accessor<double, 4>();
  for (int64_t b = 0; b < bias.size(0); ++b) {
    for (int64_t h = 0; h < bias.size(1); ++h) {
      for (int64_t t = 0; t < bias.size(2); ++t) {
        for (int64_t s = 0; s < bias.size(3); ++s) {
          const auto score = scale * (query[b][h][t] * key[b][h][s]).sum().item<double>();
          numbers[b][h][t][s] = cap * std::tanh(score / cap) - score;
        }
      }
    }
  }
  return bias;
}

TEST(SoftCap, MatchesReferenceInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 10; ++i) {
    const double cap = static_cast<double>(draw(1, 4)) / 2;
    auto attention = randomized_attention(draw_attention_options().add(soft_cap(cap)));
    const int64_t length = draw(1, 4);
    const auto x = torch::randn({2, length, attention->options.embed_dim()}, torch::kDouble);
    const auto in_loops = [&] {
      const auto [q, k, v] = project_heads(attention, x);
      const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
      const AttentionArgs args{.mask = bias_that_caps(q, k, scale, cap), .causal = true};
      return join_heads(attention, attention_in_loops(q, k, v, args).output);
    };
    EXPECT_TRUE(within_rounding(attention->forward(x, {.causal = true}).output,
                                leaves_of(*attention, {x}), in_loops));
  }
}

TEST(SoftCap, HasNoParameters) {
  EXPECT_THAT(state_names(*SoftCap(50.0)), testing::IsEmpty());
}

TEST(SoftCap, PrettyPrintShowsTheCap) {
  EXPECT_THAT(printed(*SoftCap(50.0)), testing::StartsWith("attend::SoftCap(soft_cap=50)"));
}

TEST(SoftCapErrors, NonPositiveCapThrows) {
  EXPECT_THAT([] { SoftCap(0.0); }, throws<c10::ValueError>("soft_cap (0) must be positive"));
  EXPECT_THAT([] { SoftCap{INFINITY}; },
              throws<c10::ValueError>("soft_cap (inf) must be positive and finite"));
  EXPECT_THAT([] { SoftCap(NAN); }, throws<c10::ValueError>("soft_cap (nan) must be positive"));
}

}  // namespace
}  // namespace attend
