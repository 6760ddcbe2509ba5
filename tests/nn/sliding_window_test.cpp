#include "attend/nn/sliding_window.h"

#include "support/heads.h"
#include "support/modules.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <cmath>
#include <cstdlib>

namespace attend {
namespace {

/// Returns a bool mask (T, T); true = query and key are less than `size` tokens apart.
torch::Tensor near_ones(int64_t length, int64_t size) {
  auto mask = torch::zeros({length, length}, torch::kBool);
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t s = 0; s < length; ++s) mask[t][s] = std::abs(t - s) < size;
  }
  return mask;
}

TEST(SlidingWindow, MatchesReferenceInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 10; ++i) {
    const int64_t size = draw(1, 4);
    auto attention = randomized_attention(draw_attention_options().add(sliding_window(size)));
    const int64_t length = draw(1, 6);
    const bool causal = draw(0, 1) == 1;
    const auto x = torch::randn({2, length, attention->options.embed_dim()}, torch::kDouble);
    const AttentionArgs args{.mask = near_ones(length, size), .causal = causal};
    const auto in_loops = [&] {
      const auto [q, k, v] = project_heads(attention, x);
      return join_heads(attention, attention_in_loops(q, k, v, args).output);
    };
    EXPECT_TRUE(within_rounding(attention->forward(x, {.causal = causal}).output,
                                leaves_of(*attention, {x}), in_loops));
  }
}

TEST(SlidingWindow, CombinesWithTheWindowOfTheCall) {
  const auto options = MultiheadAttentionOptions(8, 2).add(sliding_window(3));
  auto attention = randomized_attention(options);
  const auto x = torch::randn({2, 6, 8}, torch::kDouble);
  const auto seen = [&](int64_t window) {
    const AttentionArgs args{.sliding_window = window, .need_weights = true};
    return attention->forward(x, args).weights[0][0] > 0;
  };
  EXPECT_TRUE(seen(0).equal(near_ones(6, 3)));
  EXPECT_TRUE(seen(5).equal(near_ones(6, 3)));
  EXPECT_TRUE(seen(2).equal(near_ones(6, 2)));
}

TEST(SlidingWindow, HasNoParameters) {
  EXPECT_THAT(state_names(*SlidingWindow(128)), testing::IsEmpty());
}

TEST(SlidingWindow, PrettyPrintShowsTheWindow) {
  EXPECT_THAT(printed(*SlidingWindow(128)),
              testing::StartsWith("attend::SlidingWindow(sliding_window=128)"));
}

TEST(SlidingWindowErrors, NonPositiveWindowThrows) {
  EXPECT_THAT([] { SlidingWindow(0); },
              throws<c10::ValueError>("sliding_window (0) must be positive"));
}

}  // namespace
}  // namespace attend
