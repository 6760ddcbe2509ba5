#include "attend/nn/kv_cache.h"

#include "nn/cached_blocks.h"
#include "support/close.h"
#include "support/kernels.h"

#include <c10/core/InferenceMode.h>

#include <optional>
#include <utility>
#include <vector>

namespace attend {
namespace {

KvCacheOptions options_for(int64_t batch, int64_t max_seq_len, int64_t num_kv_heads = 2) {
  return KvCacheOptions()
      .num_layers(2)
      .batch_size(batch)
      .num_kv_heads(num_kv_heads)
      .head_dim(2)
      .max_seq_len(max_seq_len)
      .dtype(torch::kDouble);
}

torch::Tensor draw_input(int64_t batch, int64_t tokens) {
  return torch::randn({batch, tokens, 8}, torch::kDouble);
}

struct KvCacheOfAttention : testing::TestWithParam<CacheCase> {
  const torch::NoGradGuard no_grad;
};
INSTANTIATE_TEST_SUITE_P(, KvCacheOfAttention, testing::ValuesIn(cache_cases()),
                         [](const auto& test) { return test.param.name; });

struct RollingKvCache : KvCacheOfAttention {};
INSTANTIATE_TEST_SUITE_P(, RollingKvCache, testing::ValuesIn(rolling_cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(KvCacheOfAttention, PromptThenSingleStepsEqualTheWholeSequence) {
  torch::manual_seed(1);
  CachedBlocks model(GetParam().parts);
  const auto x = draw_input(2, 9);
  KvCache cache(options_for(2, 9));
  std::vector<torch::Tensor> outputs;
  for (int64_t begin = 0; begin < 9;) {
    const int64_t tokens = begin == 0 ? 4 : 1;
    cache.extend(tokens);
    outputs.push_back(model(x.narrow(1, begin, tokens), &cache));
    begin += tokens;
  }
  EXPECT_TRUE(close(torch::cat(outputs, 1), model(x), 1e-12));
}

TEST_P(KvCacheOfAttention, PiecesOfRandomSizesEqualTheWholeSequence) {
  seed_afresh();
  for (int i = 0; i < 15; ++i) {
    const auto batch = draw(1, 3), tokens = draw(1, 14), heads = int64_t{1} << draw(0, 2);
    CachedBlocks model(GetParam().parts, heads);
    const auto x = draw_input(batch, tokens);
    KvCache cache(options_for(batch, tokens + draw(0, 3), heads));
    SCOPED_TRACE(testing::Message() << "case " << i << x.sizes() << ", key heads " << heads);
    EXPECT_TRUE(model.computes(model.in_pieces(x, cache, 5), x));
  }
}

TEST_P(KvCacheOfAttention, StepsInFloat32EqualTheWholeSequence) {
  seed_afresh();
  for (int i = 0; i < 10; ++i) {
    const auto batch = draw(1, 3), heads = int64_t{1} << draw(0, 2);
    CachedBlocks model(GetParam().parts, heads, torch::kFloat);
    const auto x = draw_input(batch, 14).to(torch::kFloat);
    KvCache cache(options_for(batch, 14 + draw(0, 3), heads).dtype(torch::kFloat));
    SCOPED_TRACE(testing::Message() << "batch " << batch << ", key heads " << heads);
    EXPECT_TRUE(model.computes(model.in_pieces(x, cache, 2), x));
    cache.truncate(std::vector<int64_t>(static_cast<std::size_t>(batch), 9));
    EXPECT_TRUE(model.computes(model.in_pieces(x.slice(1, 9), cache, 1), x, 9));
  }
}

TEST_P(RollingKvCache, SequencesFarBeyondMaxSeqLenEqualTheWholeSequence) {
  const auto window = GetParam().window;
  seed_afresh();
  for (const int64_t most : {1, 2, 5}) {
    for (const int64_t spare : {0, 1, 4}) {
      CachedBlocks model(GetParam().parts);
      const auto x = draw_input(2, 60);
      KvCache cache(options_for(2, window + most - 1 + spare).sliding_window(window));
      EXPECT_TRUE(model.computes(model.in_pieces(x, cache, most), x))
          << "pieces " << most << ", spare " << spare;
    }
  }
}

TEST_P(KvCacheOfAttention, SupportsUnbatchedSequences) {
  seed_afresh();
  CachedBlocks model(GetParam().parts);
  const auto x = draw_input(1, 20)[0];
  KvCache whole(options_for(1, 20));
  EXPECT_TRUE(model.computes(model.in_pieces(x, whole, 4), x));
  if (GetParam().window == 0) return;
  KvCache rolling(options_for(1, GetParam().window + 3).sliding_window(GetParam().window));
  EXPECT_TRUE(model.computes(model.in_pieces(x, rolling, 4), x));
}

TEST(KvCache, AccessorsDescribeTheKeysOfTheLastExtend) {
  KvCache cache(options_for(2, 3).num_layers(0));
  cache.extend(2);
  EXPECT_TRUE(cache.is_aligned());
  EXPECT_TRUE(torch::equal(cache.query_positions(), torch::tensor({0, 1})));
  EXPECT_FALSE(cache.key_positions().defined());
  EXPECT_FALSE(cache.key_mask().defined());
  cache.extend(1, torch::tensor({{true}, {false}}));
  EXPECT_FALSE(cache.is_aligned());
  EXPECT_TRUE(torch::equal(cache.query_positions(), torch::tensor({{2}, {1}})));
  EXPECT_TRUE(torch::equal(cache.key_positions(), torch::tensor({{0, 1, 2}, {0, 1, -1}})));
  EXPECT_TRUE(
      torch::equal(cache.key_mask(), torch::tensor({{true, true, true}, {true, true, false}})));
}

TEST_P(KvCacheOfAttention, ClearAllowsNewSequences) {
  seed_afresh();
  CachedBlocks model(GetParam().parts);
  KvCache cache(options_for(2, 8));
  for (int i = 0; i < 3; ++i) {
    const auto x = draw_input(2, 8);
    EXPECT_TRUE(model.computes(model.in_pieces(x, cache, 3), x));
    cache.clear();
    EXPECT_THAT(cache.lengths(), testing::ElementsAre(0, 0));
  }
}

TEST_P(KvCacheOfAttention, TruncateRemovesTokens) {
  seed_afresh();
  CachedBlocks model(GetParam().parts);
  const auto window = GetParam().window;
  const auto x = draw_input(2, 30);
  KvCache cache(window > 0 ? options_for(2, window + 5).sliding_window(window)
                           : options_for(2, 60));
  for (int64_t length = 0; length < 30; length += 2) {
    cache.extend(4);  // rejected draft tokens, as in speculative decoding
    model(draw_input(2, 4), &cache);
    cache.truncate({length, length});
    cache.extend(2);
    const auto y = model(x.narrow(1, length, 2), &cache);
    EXPECT_TRUE(model.computes(y, x, length)) << length;
  }
}

TEST_P(KvCacheOfAttention, SupportsBfloat16) {
  torch::manual_seed(2);
  CachedBlocks model(GetParam().parts, 2, torch::kBFloat16);
  const auto x = draw_input(2, 10).to(torch::kBFloat16);
  KvCache cache(options_for(2, 10).dtype(torch::kBFloat16));
  const auto y = model.in_pieces(x, cache, 3);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(close(y, model(x), 0.1));
}

TEST_P(KvCacheOfAttention, SupportsEmptyBatchesAndZeroTokens) {
  CachedBlocks model(GetParam().parts);
  KvCache no_rows(options_for(0, 8));
  for (const int64_t tokens : {3, 0, 1}) {
    no_rows.extend(tokens);
    EXPECT_EQ(model(draw_input(0, tokens), &no_rows).sizes(), at::IntArrayRef({0, tokens, 8}));
  }
  KvCache cache(options_for(2, 8));
  for (const int64_t tokens : {0, 3, 0}) {
    cache.extend(tokens);
    EXPECT_EQ(model(draw_input(2, tokens), &cache).sizes(), at::IntArrayRef({2, tokens, 8}));
  }
  cache.extend(0);  // without a call of the model
  cache.extend(1);
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(4, 4));
}

TEST(KvCache, ReportsPositionsAndLengths) {
  KvCache cache(
      KvCacheOptions().num_layers(1).batch_size(2).num_kv_heads(1).head_dim(2).max_seq_len(6));
  EXPECT_EQ(cache.max_seq_len(), 6);
  EXPECT_EQ(cache.positions().sizes(), at::IntArrayRef({2, 0}));
  cache.extend(3, torch::tensor({{0, 1, 1}, {1, 0, 0}}).to(torch::kBool));
  EXPECT_TRUE(torch::equal(cache.positions(), torch::tensor({{0, 0, 1}, {0, 0, 0}})));
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(2, 1));
  cache.truncate({1, 1});
  cache.extend(2);
  EXPECT_TRUE(torch::equal(cache.positions(), torch::tensor({{1, 2}, {1, 2}})));
}

TEST(KvCache, CanBeMovedWithinASequence) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(4);
  CachedBlocks model({});
  const auto x = draw_input(1, 6);
  const auto prefilled = [&]() -> KvCache {
    KvCache cache(options_for(1, 6));
    cache.extend(2);
    model(x.narrow(1, 0, 2), &cache);
    return cache;
  };
  std::vector<KvCache> caches;
  std::optional<KvCache> optional;
  for (int i = 0; i < 3; ++i) caches.push_back(prefilled());  // reallocation moves the caches
  optional = std::move(caches.front());
  caches.erase(caches.begin());
  for (auto* cache : {&caches[0], &caches[1], &*optional}) {
    cache->extend(4);
    EXPECT_TRUE(close(model(x.narrow(1, 2, 4), cache), model(x).narrow(1, 2, 4), 1e-12));
    EXPECT_THAT(cache->lengths(), testing::ElementsAre(6));
  }
}

TEST(KvCache, AppendWorksWithoutAnAttentionModule) {
  KvCache cache(options_for(1, 3));
  for (int64_t t = 1; t <= 3; ++t) {
    cache.extend(1);
    for (int64_t layer = 0; layer < 2; ++layer) {
      const auto ones = torch::ones({1, 2, 1, 2}, torch::kDouble);
      const auto [keys, values] = cache.append(layer, ones * t, -ones * t);
      EXPECT_EQ(keys.sizes(), at::IntArrayRef({1, 2, t, 2}));
      EXPECT_TRUE(torch::equal(keys, -values));
      EXPECT_TRUE(torch::equal(keys.select(2, t - 1), ones.select(2, 0) * t));
    }
  }
}

TEST(KvCache, SingleStepUsesTheFusedKernelWithoutMask) {
  const torch::NoGradGuard no_grad;
  CachedBlocks model({});
  KvCache cache(options_for(2, 8));
  for (const int64_t tokens : {3, 1, 1}) {
    cache.extend(tokens);
    const auto calls = fused_calls([&] { model(draw_input(2, tokens), &cache); });
    ASSERT_EQ(calls.size(), 2U) << tokens;
    for (const auto& call : calls) EXPECT_FALSE(call.masked) << tokens;
  }
}

TEST(KvCache, AcceptsAMaskOverAllKeysSoFar) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  CachedBlocks model({});
  const auto x = draw_input(2, 5);
  const auto mask = torch::randn({2, 1, 5, 5}, torch::kDouble);
  const auto whole = model(x, nullptr, {.mask = mask});
  KvCache cache(options_for(2, 5));
  for (int64_t t = 0; t < 5; ++t) {
    cache.extend(1);
    const auto row = mask.narrow(2, t, 1).narrow(3, 0, t + 1);
    const auto y = model(x.narrow(1, t, 1), &cache, {.mask = row});
    EXPECT_TRUE(close(y, whole.narrow(1, t, 1), 1e-12)) << t;
  }
}

TEST(KvCache, CacheCreatedInInferenceModeWorksOutsideOfIt) {
  CachedBlocks model({});
  const auto make = [] {
    const c10::InferenceMode inference;
    return std::make_unique<KvCache>(options_for(1, 4));
  };
  const auto cache = make();
  const auto step = [&] {
    cache->extend(2, torch::tensor({{true, false}}));
    model(draw_input(1, 2), cache.get());
  };
  {
    const c10::InferenceMode inference;
    step();
  }
  const torch::NoGradGuard no_grad;
  step();
  EXPECT_THAT(cache->lengths(), testing::ElementsAre(2));
}

}  // namespace
}  // namespace attend
