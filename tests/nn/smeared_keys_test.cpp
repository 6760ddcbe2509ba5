#include "attend/nn/smeared_keys.h"

#include "attend/nn/kv_cache.h"
#include "support/heads.h"
#include "support/modules.h"
#include "support/reference.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>

namespace attend {
namespace {

/// Reference: mixes a key with the previous key where `joined` (B, S) is true.
torch::Tensor smeared(const torch::Tensor& key, const torch::Tensor& logits,
                      const std::vector<std::vector<bool>>& joined) {
  auto result = key.clone();  // (B, H, S, D)
  const int64_t heads_a_group = key.size(1) / logits.size(0);
  for (int64_t b = 0; b < key.size(0); ++b) {
    for (int64_t h = 0; h < key.size(1); ++h) {
      const double share = 1 / (1 + std::exp(-logits[h / heads_a_group].item<double>()));
      for (int64_t s = 1; s < key.size(2); ++s) {
        if (!joined[static_cast<std::size_t>(b)][static_cast<std::size_t>(s)]) continue;
        result[b][h][s] = (1 - share) * key[b][h][s] + share * key[b][h][s - 1];
      }
    }
  }
  return result;
}

torch::Tensor in_loops(const MultiheadAttention& attention, const torch::Tensor& x,
                       const AttentionArgs& args, const std::vector<std::vector<bool>>& joined) {
  const auto heads = project_heads(attention, x);
  const auto key = smeared(heads.key, parameter_of(*attention, "smeared_keys.logits"), joined);
  return join_heads(attention, attention_in_loops(heads.query, key, heads.value, args).output);
}

using Joined = std::vector<std::vector<bool>>;

TEST(SmearedKeys, MatchReferenceInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 10; ++i) {
    auto attention = randomized_attention(draw_attention_options().add(smeared_keys()));
    const int64_t length = draw(1, 5);
    const auto x = torch::randn({2, length, attention->options.embed_dim()}, torch::kDouble);
    const Joined all(2, std::vector<bool>(static_cast<std::size_t>(length), true));
    const AttentionArgs args{.causal = true};
    EXPECT_TRUE(within_rounding(attention->forward(x, args).output, leaves_of(*attention, {x}),
                                [&] { return in_loops(attention, x, args, all); }));
  }
}

struct SmearedKeysNeighbours : FixedSeed, testing::Test {
  MultiheadAttention attention =
      randomized_attention(MultiheadAttentionOptions(8, 4).num_kv_heads(2).add(smeared_keys()));
  torch::Tensor x = torch::randn({2, 5, 8}, torch::kDouble);
};

TEST_F(SmearedKeysNeighbours, PaddingIsSkipped) {
  const auto valid =
      torch::tensor({{false, false, true, true, true}, {true, true, true, true, false}});
  const AttentionArgs args{.key_mask = valid, .causal = true};
  const Joined joined{{false, false, false, true, true}, {false, true, true, true, true}};
  EXPECT_TRUE(
      close(attention->forward(x, args).output, in_loops(attention, x, args, joined), 1e-10));
}

TEST_F(SmearedKeysNeighbours, OtherDocumentsAreSkipped) {
  const AttentionArgs args{.segments = torch::tensor({{0, 0, 1, 1, 2}, {3, 3, 3, 4, 4}}),
                           .causal = true};
  const Joined joined{{false, true, false, true, false}, {false, true, true, false, true}};
  EXPECT_TRUE(
      close(attention->forward(x, args).output, in_loops(attention, x, args, joined), 1e-10));
}

TEST_F(SmearedKeysNeighbours, AreReadFromTheKvCache) {
  const torch::NoGradGuard no_grad;
  const AttentionArgs causal{.causal = true};
  const auto expected = attention->forward(x, causal).output;
  KvCache cache(
      KvCacheOptions().num_layers(1).batch_size(2).num_kv_heads(2).head_dim(2).max_seq_len(8).dtype(
          torch::kDouble));
  Tensors pieces;
  for (const auto& piece : x.split({3, 1, 1}, 1)) {
    cache.extend(piece.size(1));
    pieces.push_back(attention->forward(piece, causal, {.cache = &cache}).output);
  }
  EXPECT_TRUE(close(torch::cat(pieces, 1), expected, 1e-10));
}

TEST_F(SmearedKeysNeighbours, AreReadFromAKvCacheWithUnequalRows) {
  const torch::NoGradGuard no_grad;
  const AttentionArgs causal{.causal = true};
  const auto first = attention->forward(x.narrow(0, 0, 1).narrow(1, 2, 3), causal).output;
  const auto second = attention->forward(x.narrow(0, 1, 1), causal).output;
  KvCache cache(
      KvCacheOptions().num_layers(1).batch_size(2).num_kv_heads(2).head_dim(2).max_seq_len(8).dtype(
          torch::kDouble));
  cache.extend(4, torch::tensor({{false, false, true, true}, {true, true, true, true}}));
  attention->forward(x.narrow(1, 0, 4), causal, {.cache = &cache});
  cache.extend(1);
  const auto last = attention->forward(x.narrow(1, 4, 1), causal, {.cache = &cache}).output;
  EXPECT_TRUE(close(last[0][0], first[0][2], 1e-10));
  EXPECT_TRUE(close(last[1][0], second[0][4], 1e-10));
}

TEST_F(SmearedKeysNeighbours, KvCacheWithoutRoomForThemThrows) {
  const torch::NoGradGuard no_grad;
  const AttentionArgs near{.causal = true, .sliding_window = 2};
  KvCache cache(KvCacheOptions()
                    .num_layers(1)
                    .batch_size(2)
                    .num_kv_heads(2)
                    .head_dim(2)
                    .max_seq_len(2)
                    .sliding_window(2)
                    .dtype(torch::kDouble));
  cache.extend(1);
  EXPECT_THAT([&] { attention->forward(x.narrow(1, 0, 1), near, {.cache = &cache}); },
              throws<c10::ValueError>("the KvCache's sliding_window (2) must be at least 3"));
}

TEST(SmearedKeys, AreInitializedToOneHalfWithKeyLogits) {
  SmearedKeys part(3);
  EXPECT_THAT(state_names(*part), testing::ElementsAre("logits"));
  EXPECT_TRUE(close(part->logits, torch::zeros({3}), 0.0));
}

TEST(SmearedKeys, PrettyPrintShowsNumKvHeads) {
  EXPECT_THAT(printed(*SmearedKeys(2)), testing::StartsWith("attend::SmearedKeys(num_kv_heads=2)"));
}

TEST(SmearedKeysErrors, NonPositiveNumKvHeadsThrows) {
  EXPECT_THAT([] { SmearedKeys(0); }, throws<c10::ValueError>("num_kv_heads (0) must be positive"));
}

}  // namespace
}  // namespace attend
