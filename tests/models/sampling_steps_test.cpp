// Each step of sampling.h against a plain loop.
#include "attend/models/sampling.h"
#include "models/token_scores.h"
#include "support/close.h"
#include "support/seed.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attend {
namespace {

Numbers draw_scores() {
  Numbers scores(static_cast<std::size_t>(draw(1, 12)));
  // Of few different values, so that some are equal.
  for (auto& score : scores) score = static_cast<double>(draw(-6, 6)) / 2;
  return scores;
}

Numbers softmax(const Numbers& scores) {
  Numbers probabilities;
  for (const auto score : scores) probabilities.push_back(std::exp(score));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (auto& probability : probabilities) probability /= sum;
  return probabilities;
}

/// How many tokens stand before `token` when the highest score, then the lower token comes first.
template <typename Add>
auto over_those_before(const Numbers& scores, std::size_t token, Add add) {
  double sum = 0.0;
  for (std::size_t other = 0; other < scores.size(); ++other) {
    const bool before =
        scores[other] > scores[token] || (scores[other] == scores[token] && other < token);
    if (before) sum += add(other);
  }
  return sum;
}

/// `scores` where `kept(token)`, and -inf elsewhere.
template <typename Kept>
torch::Tensor where(const Numbers& scores, Kept kept) {
  Numbers filtered;
  for (std::size_t token = 0; token < scores.size(); ++token) {
    filtered.push_back(kept(token) ? scores[token] : -kInfinity);
  }
  return tensor(filtered);
}

TEST(SamplingSteps, RepetitionPenaltyMakesEarlierTokensLessLikelyOnce) {
  const auto scores = tensor({4, -4, 0, 2, -kInfinity});
  EXPECT_TRUE(close(penalize_repetition(scores, {1, 0, 0, 4, 2}, 2.0),
                    tensor({2, -8, 0, 2, -kInfinity}), 0));
  EXPECT_TRUE(
      close(penalize_repetition(scores, {0, 1}, 0.5), tensor({8, -2, 0, 2, -kInfinity}), 0));
  EXPECT_TRUE(close(penalize_repetition(scores, {}, 2.0), scores, 0));
}

TEST(SamplingSteps, TemperatureDividesTheScores) {
  const Numbers scores{1, -2, 0.5, -kInfinity};
  EXPECT_TRUE(close(with_temperature(tensor(scores), 0.5).softmax(0),
                    tensor(softmax({2, -4, 1, -kInfinity})), 1e-12));
}

TEST(SamplingSteps, TopKKeepsTheHighestScoresAndOfEqualOnesTheLowerTokens) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    const auto scores = draw_scores();
    const auto k = draw(0, 14);  // above V at times
    const auto expected = where(scores, [&](std::size_t token) {
      const auto before = over_those_before(scores, token, [](std::size_t) { return 1.0; });
      return k == 0 || before < static_cast<double>(k);
    });
    ASSERT_TRUE(close(keep_top_k(tensor(scores), k), expected, 0)) << k << expected;
  }
}

TEST(SamplingSteps, TopPKeepsTheFewestTokensThatReachIt) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    const auto scores = draw_scores();
    const auto probabilities = softmax(scores);
    const double p = static_cast<double>(draw(0, 100)) / 99.99;  // 0, and above 1 at times
    const auto expected = where(scores, [&](std::size_t token) {
      const auto before =
          over_those_before(scores, token, [&](std::size_t other) { return probabilities[other]; });
      return before == 0.0 || before < p;
    });
    ASSERT_TRUE(close(keep_top_p(tensor(scores), p), expected, 0)) << p << expected;
  }
}

TEST(SamplingSteps, MinPKeepsWhatHasThatShareOfTheGreatestProbability) {
  seed_afresh();
  for (int i = 0; i < 300; ++i) {
    const auto scores = draw_scores();
    const auto probabilities = softmax(scores);
    const double p = static_cast<double>(draw(0, 100)) / 100;
    const auto greatest = *std::max_element(probabilities.begin(), probabilities.end());
    const auto expected = where(scores, [&](std::size_t token) {
      return probabilities[token] >= p * greatest * (1 - 1e-12);
    });
    ASSERT_TRUE(close(keep_min_p(tensor(scores), p), expected, 0)) << p << expected;
  }
}

TEST(SamplingSteps, AllEqualScoresAreCutByTheirNumber) {
  const Numbers scores(4, 1.5);
  const auto keeps = [&](std::size_t count) {
    return where(scores, [=](std::size_t token) { return token < count; });
  };
  EXPECT_TRUE(close(keep_top_k(tensor(scores), 3), keeps(3), 0));
  EXPECT_TRUE(close(keep_top_p(tensor(scores), 0.5), keeps(2), 0));
  EXPECT_TRUE(close(keep_top_p(tensor(scores), 0.0), keeps(1), 0));
  EXPECT_TRUE(close(keep_min_p(tensor(scores), 1.0), keeps(4), 0));
}

}  // namespace
}  // namespace attend
