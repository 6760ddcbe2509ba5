#include "attend/models/sampling.h"

#include "models/token_scores.h"
#include "support/close.h"
#include "support/throws.h"

#include <cmath>
#include <numeric>

namespace attend {
namespace {

/// How often each token is drawn, as a share of 20000 draws.
Numbers frequencies(const Numbers& scores, const SamplingOptions& options,
                    at::IntArrayRef previous = {}) {
  constexpr int kDraws = 20000;
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{7});
  const auto given = tensor(scores);
  Numbers shares(scores.size());
  for (int i = 0; i < kDraws; ++i) {
    shares[static_cast<std::size_t>(sample(given, options, previous, generator))] += 1.0 / kDraws;
  }
  return shares;
}

// The standard deviation of a share of 20000 draws is 0.0035 at most; another order of the steps
// would change some share by more than 0.03.
TEST(Sampling, DrawsEachTokenAsOftenAsItsProbabilitySays) {
  const Numbers p{0.4, 0.3, 0.15, 0.1, 0.05};
  Numbers scores;
  for (const auto probability : p) scores.push_back(std::log(probability));
  const auto of = [](Numbers weights) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (auto& weight : weights) weight /= sum;
    return tensor(weights);
  };
  const auto squared = [&](std::size_t token) { return p[token] * p[token]; };
  struct Case {
    SamplingOptions options;
    torch::Tensor expected;
  };
  const std::vector<Case> cases{
      // Cooled, the first two reach 0.8, and the last two fall below a tenth of the first.
      {{.temperature = 0.5, .top_p = 0.8}, of({squared(0), squared(1), 0, 0, 0})},
      {{.temperature = 0.5, .min_p = 0.1}, of({squared(0), squared(1), squared(2), 0, 0})},
      // Of three tokens, two reach 0.82; of all tokens, three do.
      {{.top_k = 3, .top_p = 0.82}, of({0.4, 0.3, 0, 0, 0})},
      {{.top_p = 0.82, .min_p = 0.3}, of({0.4, 0.3, 0.15, 0, 0})},
  };
  for (const auto& [options, expected] : cases) {
    EXPECT_TRUE(close(tensor(frequencies(scores, options)), expected, 0.02)) << expected;
  }
  // Scores below 0 are doubled: probabilities squared.
  EXPECT_TRUE(close(tensor(frequencies(scores, {.repetition_penalty = 2.0}, {0, 1})),
                    of({squared(0), squared(1), 0.15, 0.1, 0.05}), 0.02));
}

TEST(Sampling, TemperatureZeroTakesTheLikeliestOfEqualOnesTheLowest) {
  const auto scores = tensor({1, 3, 3, -kInfinity});
  EXPECT_EQ(sample(scores, {.temperature = 0.0}), 1);
  EXPECT_EQ(sample(scores, {.temperature = 1e-300, .top_k = 1}), 1);
  EXPECT_EQ(sample(scores, {.top_p = 0.0}), 1);
  EXPECT_EQ(sample(scores, {.repetition_penalty = 2.0, .temperature = 0.0}, {1}), 2);
}

TEST(Sampling, TakesScoresOfEachFloatDtypeAndNeverATokenOfScoreMinusInfinity) {
  for (const auto dtype : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    const auto scores = tensor({-kInfinity, -2, -kInfinity}).to(dtype);
    for (const auto& options : {SamplingOptions{.temperature = 1e300}, SamplingOptions{.top_k = 2},
                                SamplingOptions{.top_p = 0.5}, SamplingOptions{.min_p = 1.0}}) {
      EXPECT_EQ(sample(scores, options, {0, 1}), 1);
    }
  }
}

TEST(Sampling, ErrorsNameTheValues) {
  const auto refused = [](const SamplingOptions& options, const char* text) {
    EXPECT_THAT([&] { sample(torch::zeros(3), options); }, throws<c10::ValueError>(text));
  };
  refused({.repetition_penalty = 0.0}, "repetition_penalty (0) must be positive");
  refused({.temperature = -1.0}, "temperature (-1)");
  refused({.temperature = kInfinity}, "temperature (inf)");
  refused({.temperature = std::nan("")}, "temperature (nan)");
  refused({.top_k = -2}, "top_k (-2)");
  refused({.top_p = 1.5}, "top_p (1.5) must be in [0, 1]");
  refused({.min_p = -0.1}, "min_p (-0.1) must be in [0, 1]");
  EXPECT_THAT([] { sample(torch::zeros({2, 3})); }, throws<c10::ValueError>("(V), found [2, 3]"));
  EXPECT_THAT([] { sample(tensor({0, std::nan("")})); }, throws<c10::Error>("NaN"));
  EXPECT_THAT([] { sample(tensor({0, kInfinity})); }, throws<c10::Error>("found inf"));
  EXPECT_THAT([] { sample(tensor({-kInfinity})); }, throws<c10::Error>("found -inf"));
}

}  // namespace
}  // namespace attend
