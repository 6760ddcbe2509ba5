// A KV cache with sequences of different lengths. The outputs of each sequence must equal its
// outputs when it is computed alone, without a cache.
#include "attend/nn/kv_cache.h"
#include "nn/cached_blocks.h"

#include <limits>

namespace attend {
namespace {

/// Returns a key mask (B, tokens) with counts[b] tokens in row b. `side` is where the padding
/// is: "Left", "Right" or "Anywhere".
torch::Tensor place(const std::vector<int64_t>& counts, int64_t tokens, const std::string& side) {
  auto valid = torch::zeros({static_cast<int64_t>(counts.size()), tokens}, torch::kBool);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    auto row = valid[static_cast<int64_t>(b)];
    if (side == "Left") row.narrow(0, tokens - counts[b], counts[b]).fill_(true);
    if (side == "Right") row.narrow(0, 0, counts[b]).fill_(true);
    if (side == "Anywhere")
      row.index_fill_(0, torch::randperm(tokens).narrow(0, 0, counts[b]), true);
  }
  return valid;
}

using RowsCase = std::tuple<CacheCase, std::string>;

/// Feeds sequences of different lengths as one batch and collects their outputs.
struct KvCacheRows : testing::TestWithParam<RowsCase> {
  void SetUp() override {
    seed_afresh();
    for (int64_t b = 0; b < 3; ++b) sequences.push_back(torch::randn({40, 8}, torch::kDouble));
    outputs.resize(3);
  }

  /// Feeds `tokens` tokens per row. In row b, counts[b] of them are the next tokens of sequence b.
  /// The others are padding tokens with random values.
  void feed(KvCache& cache, const std::vector<int64_t>& counts, int64_t tokens) {
    const auto valid = place(counts, tokens, std::get<1>(GetParam()));
    const auto x = torch::randn({3, tokens, 8}, torch::kDouble);
    for (int64_t b = 0; b < 3; ++b) {
      const auto i = static_cast<std::size_t>(b);
      x[b].index_put_({valid[b]}, sequences[i].narrow(0, cache.lengths()[i], counts[i]));
    }
    cache.extend(tokens, valid);
    const auto y = model(x, &cache);
    EXPECT_TRUE(torch::isfinite(y).all().item<bool>());
    for (int64_t b = 0; b < 3; ++b) {
      outputs[static_cast<std::size_t>(b)].push_back(y[b].index({valid[b]}));
    }
  }

  void expect_outputs_of_single_sequences() {
    for (std::size_t b = 0; b < 3; ++b) {
      const auto found = torch::cat(outputs[b]);
      EXPECT_TRUE(model.computes(found, sequences[b].narrow(0, 0, found.size(0)))) << "row " << b;
    }
  }

  static KvCacheOptions options(int64_t max_seq_len) {
    return KvCacheOptions()
        .num_layers(2)
        .batch_size(3)
        .num_kv_heads(2)
        .head_dim(2)
        .max_seq_len(max_seq_len)
        .dtype(torch::kDouble);
  }

  const torch::NoGradGuard no_grad;
  CachedBlocks model{std::get<0>(GetParam()).parts};
  std::vector<torch::Tensor> sequences;
  std::vector<std::vector<torch::Tensor>> outputs;
};

INSTANTIATE_TEST_SUITE_P(, KvCacheRows,
                         testing::Combine(testing::ValuesIn(cache_cases()),
                                          testing::Values("Left", "Right", "Anywhere")),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + std::get<1>(test.param);
                         });

struct RollingKvCacheRows : KvCacheRows {};
INSTANTIATE_TEST_SUITE_P(, RollingKvCacheRows,
                         testing::Combine(testing::ValuesIn(rolling_cases()),
                                          testing::Values("Left", "Right", "Anywhere")),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + std::get<1>(test.param);
                         });

TEST_P(KvCacheRows, PromptsOfDifferentLengthsThenSingleSteps) {
  KvCache cache(options(12));
  feed(cache, {5, 2, 0}, 5);
  for (int step = 0; step < 7; ++step) feed(cache, {1, 1, 1}, 1);
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(12, 9, 7));
  expect_outputs_of_single_sequences();
}

TEST_P(KvCacheRows, PiecesOfRandomSizes) {
  KvCache cache(options(40));
  for (int i = 0; i < 8; ++i) feed(cache, {draw(0, 4), draw(0, 4), draw(0, 4)}, 5);
  expect_outputs_of_single_sequences();
}

TEST_P(KvCacheRows, LengthsThatBecomeEqual) {
  KvCache cache(options(20));
  feed(cache, {4, 2, 3}, 6);
  feed(cache, {0, 2, 1}, 2);
  for (int step = 0; step < 3; ++step) feed(cache, {2, 2, 2}, 2);
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(10, 10, 10));
  expect_outputs_of_single_sequences();
}

TEST_P(RollingKvCacheRows, FarBeyondMaxSeqLen) {
  const auto window = std::get<0>(GetParam()).window;
  KvCache cache(options(window + 3).sliding_window(window));
  for (int i = 0; i < 10; ++i) feed(cache, {draw(0, 4), draw(0, 4), draw(0, 4)}, 6);
  expect_outputs_of_single_sequences();
}

TEST_P(RollingKvCacheRows, SelectRowsAfterTokensHaveBeenOverwritten) {
  const auto window = std::get<0>(GetParam()).window;
  KvCache cache(options(window + 3).sliding_window(window));
  for (int i = 0; i < 6; ++i) feed(cache, {draw(1, 4), draw(1, 4), draw(1, 4)}, 4);
  cache.select_rows({2, 0, 1});
  const auto permuted = [](const auto& all) { return std::vector{all[2], all[0], all[1]}; };
  sequences = permuted(sequences);
  outputs = permuted(outputs);
  for (int i = 0; i < 4; ++i) feed(cache, {draw(1, 4), draw(1, 4), draw(1, 4)}, 4);
  expect_outputs_of_single_sequences();
}

TEST_P(KvCacheRows, SelectRowsCopiesSequences) {
  KvCache cache(options(40));
  feed(cache, {5, 2, 0}, 5);
  cache.select_rows({1, 1, 0});
  const auto copies = [](const auto& all) { return std::vector{all[1], all[1], all[0]}; };
  sequences = copies(sequences);
  outputs = copies(outputs);
  // The copies continue with different tokens.
  sequences[1] = sequences[0].clone();
  sequences[1].slice(0, 2).normal_();
  EXPECT_THAT(cache.lengths(), testing::ElementsAre(2, 2, 5));
  for (int i = 0; i < 4; ++i) feed(cache, {draw(0, 3), draw(0, 3), draw(0, 3)}, 4);
  expect_outputs_of_single_sequences();
}

TEST_P(KvCacheRows, SelectRowsChangesTheBatchSize) {
  KvCache cache(options(40));
  feed(cache, {3, 1, 2}, 3);
  cache.select_rows({2});
  cache.select_rows({0, 0, 0});
  for (std::size_t b = 0; b < 3; ++b) {
    sequences[b].narrow(0, 0, 2).copy_(sequences[2].narrow(0, 0, 2));
    outputs[b] = outputs[2];
  }
  EXPECT_EQ(cache.batch_size(), 3);
  for (int i = 0; i < 4; ++i) feed(cache, {draw(0, 3), draw(0, 3), draw(0, 3)}, 4);
  expect_outputs_of_single_sequences();
}

TEST_P(KvCacheRows, RemovedTokensHaveNoEffect) {
  KvCache cache(options(40));
  sequences[0].fill_(std::numeric_limits<double>::quiet_NaN());
  cache.extend(4);
  model(torch::stack({sequences[0].narrow(0, 0, 4), sequences[1].narrow(0, 0, 4),
                      sequences[2].narrow(0, 0, 4)}),
        &cache);
  cache.truncate({1, 2, 1});
  cache.select_rows({1, 2, 1});
  sequences = {sequences[1], sequences[2], sequences[1].clone()};
  cache.truncate({0, 0, 0});
  for (int i = 0; i < 4; ++i) feed(cache, {draw(0, 3), draw(1, 3), draw(0, 3)}, 4);
  expect_outputs_of_single_sequences();
}

TEST_P(KvCacheRows, TruncateToDifferentLengths) {
  KvCache cache(options(30));
  feed(cache, {5, 2, 0}, 5);
  const auto before = cache.lengths();
  cache.extend(3);
  model(torch::randn({3, 3, 8}, torch::kDouble), &cache);
  cache.truncate(before);
  EXPECT_EQ(cache.lengths(), before);
  feed(cache, {1, 4, 2}, 4);
  expect_outputs_of_single_sequences();
}

}  // namespace
}  // namespace attend
