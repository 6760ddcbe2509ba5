// Compares each filter of sampling.h with a plain loop.
#include "attend/models/sampling.h"
#include "models/token_scores.h"
#include "support/close.h"
#include "support/seed.h"
#include "support/throws.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attend {
namespace {

Numbers draw_logits() {
  Numbers logits(static_cast<std::size_t>(draw(1, 12)));
  // The logits have few distinct values, so that ties occur.
  for (auto& logit : logits) logit = static_cast<double>(draw(-6, 6)) / 2;
  return logits;
}

Numbers softmax(const Numbers& logits) {
  Numbers probabilities;
  for (const auto logit : logits) probabilities.push_back(std::exp(logit));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (auto& probability : probabilities) probability /= sum;
  return probabilities;
}

/// Returns the sum of `add(other)` over the tokens that rank before `token`: those with a higher
/// logit, or with the same logit and a lower id.
template <typename Add>
auto sum_over_higher_ranked(const Numbers& logits, std::size_t token, Add add) {
  double sum = 0.0;
  for (std::size_t other = 0; other < logits.size(); ++other) {
    const bool ranked_before =
        logits[other] > logits[token] || (logits[other] == logits[token] && other < token);
    if (ranked_before) sum += add(other);
  }
  return sum;
}

/// Returns a copy of `logits` in which the logit of each token is -inf unless `kept(token)` is
/// true.
template <typename Kept>
torch::Tensor where(const Numbers& logits, Kept kept) {
  Numbers filtered;
  for (std::size_t token = 0; token < logits.size(); ++token) {
    filtered.push_back(kept(token) ? logits[token] : -kInfinity);
  }
  return tensor(filtered);
}

TEST(SamplingFilters, RepetitionPenaltyAppliesOncePerPreviousToken) {
  const auto logits = tensor({4, -4, 0, 2, -kInfinity});
  EXPECT_TRUE(close(penalize_repetition(logits, {1, 0, 0, 4, 2}, 2.0),
                    tensor({2, -8, 0, 2, -kInfinity}), 0));
  EXPECT_TRUE(
      close(penalize_repetition(logits, {0, 1}, 0.5), tensor({8, -2, 0, 2, -kInfinity}), 0));
  EXPECT_TRUE(close(penalize_repetition(logits, {}, 2.0), logits, 0));
}

TEST(SamplingFilters, TemperatureDividesTheLogits) {
  const Numbers logits{1, -2, 0.5, -kInfinity};
  EXPECT_TRUE(close(with_temperature(tensor(logits), 0.5).softmax(0),
                    tensor(softmax({2, -4, 1, -kInfinity})), 1e-12));
}

TEST(SamplingFilters, TopKKeepsTheLargestLogitsAndLowerIdsOfTies) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    const auto logits = draw_logits();
    const auto k = draw(0, 14);  // sometimes more than the number of tokens
    const auto expected = where(logits, [&](std::size_t token) {
      const auto ranked_before =
          sum_over_higher_ranked(logits, token, [](std::size_t) { return 1.0; });
      return k == 0 || ranked_before < static_cast<double>(k);
    });
    ASSERT_TRUE(close(keep_top_k(tensor(logits), k), expected, 0)) << k << expected;
  }
}

TEST(SamplingFilters, TopPKeepsTheSmallestNucleus) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    const auto logits = draw_logits();
    const auto probabilities = softmax(logits);
    const double p = static_cast<double>(draw(0, 100)) / 99.99;  // sometimes 0 or above 1
    const auto expected = where(logits, [&](std::size_t token) {
      const auto ranked_before = sum_over_higher_ranked(
          logits, token, [&](std::size_t other) { return probabilities[other]; });
      return ranked_before == 0.0 || ranked_before < p;
    });
    ASSERT_TRUE(close(keep_top_p(tensor(logits), p), expected, 0)) << p << expected;
  }
}

TEST(SamplingFilters, MinPKeepsTokensRelativeToTheMostLikely) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    const auto logits = draw_logits();
    const auto probabilities = softmax(logits);
    const double p = static_cast<double>(draw(0, 100)) / 100;
    const auto greatest = *std::max_element(probabilities.begin(), probabilities.end());
    const auto expected = where(logits, [&](std::size_t token) {
      return probabilities[token] >= p * greatest * (1 - 1e-12);
    });
    ASSERT_TRUE(close(keep_min_p(tensor(logits), p), expected, 0)) << p << expected;
  }
}

TEST(SuppressTokens, SetsTheirLogitsToMinusInfinity) {
  const auto logits = tensor({4, -4, 0, 2});
  EXPECT_TRUE(
      close(suppress_tokens(logits, {2, 0, 2}), tensor({-kInfinity, -4, -kInfinity, 2}), 0));
  EXPECT_TRUE(close(suppress_tokens(logits, {}), logits, 0));
  EXPECT_THAT(
      [&] {
        suppress_tokens(logits, {1, 4});
      },
      throws_naming<c10::ValueError>("suppress_tokens", "4", "3"));
  EXPECT_THAT([&] { suppress_tokens(logits, {-1}); },
              throws_naming<c10::ValueError>("suppress_tokens", "-1", "3"));
}

TEST(SuppressTokens, RepeatedNGramsAreThoseThatOccurTwiceWithTheNextToken) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    std::vector<int64_t> previous(static_cast<std::size_t>(draw(0, 12)));
    for (auto& token : previous) token = draw(0, 2);
    const auto size = draw(0, 4);
    const auto count_of_last = [&](std::vector<int64_t> tokens) {
      // Returns how often the last n-gram of `tokens` occurs in them.
      const auto n = std::min<std::ptrdiff_t>(size, std::ssize(tokens));
      int count = 0;
      for (auto begin = tokens.begin(); begin + n <= tokens.end(); ++begin)
        count += std::equal(begin, begin + n, tokens.end() - n);
      return count;
    };
    std::vector<int64_t> expected;
    for (int64_t token = 0; token < 3 && size > 0 && std::ssize(previous) >= size; ++token) {
      auto tokens = previous;
      tokens.push_back(token);
      if (count_of_last(tokens) > 1) expected.push_back(token);
    }
    ASSERT_EQ(repeated_ngram_tokens(previous, size), expected) << size << at::IntArrayRef(previous);
  }
  EXPECT_THAT([] { repeated_ngram_tokens({1}, -1); },
              throws_naming<c10::ValueError>("ngram_size", "-1"));
}

TEST(SamplingFilters, TiesAreResolvedByTokenId) {
  const Numbers logits(4, 1.5);
  const auto keeps = [&](std::size_t count) {
    return where(logits, [=](std::size_t token) { return token < count; });
  };
  EXPECT_TRUE(close(keep_top_k(tensor(logits), 3), keeps(3), 0));
  EXPECT_TRUE(close(keep_top_p(tensor(logits), 0.5), keeps(2), 0));
  EXPECT_TRUE(close(keep_top_p(tensor(logits), 0.0), keeps(1), 0));
  EXPECT_TRUE(close(keep_min_p(tensor(logits), 1.0), keeps(4), 0));
}

}  // namespace
}  // namespace attend
