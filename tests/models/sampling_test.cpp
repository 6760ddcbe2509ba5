#include "attend/models/sampling.h"

#include "models/token_scores.h"
#include "support/close.h"
#include "support/throws.h"

#include <cmath>
#include <numeric>

namespace attend {
namespace {

/// Returns the relative frequency of each token in 20000 samples.
Numbers frequencies(const Numbers& logits, const SamplingOptions& options,
                    at::IntArrayRef previous = {}) {
  constexpr int kDraws = 20000;
  auto generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{7});
  const auto logits_tensor = tensor(logits);
  Numbers frequency(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    frequency[static_cast<std::size_t>(sample(logits_tensor, options, previous, generator))] +=
        1.0 / kDraws;
  }
  return frequency;
}

// The tolerance 0.02 lies between two bounds: the standard deviation of a frequency over 20000
// samples is at most 0.0036, and another order of the filters changes a frequency by more than
// 0.03.
TEST(Sampling, FrequenciesMatchTheProbabilities) {
  const Numbers p{0.4, 0.3, 0.15, 0.1, 0.05};
  Numbers logits;
  for (const auto probability : p) logits.push_back(std::log(probability));
  const auto normalized = [](Numbers weights) {
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
      // At temperature 0.5, the first two tokens have a total probability of at least 0.8. Each of
      // the last two tokens has less than 0.1 times the probability of the first token.
      {{.temperature = 0.5, .top_p = 0.8}, normalized({squared(0), squared(1), 0, 0, 0})},
      {{.temperature = 0.5, .min_p = 0.1}, normalized({squared(0), squared(1), squared(2), 0, 0})},
      // With top_k = 3, the first two tokens have a total probability of at least 0.82. Without
      // top_k, their total is 0.7, so top_p keeps three tokens.
      {{.top_k = 3, .top_p = 0.82}, normalized({0.4, 0.3, 0, 0, 0})},
      {{.top_p = 0.82, .min_p = 0.3}, normalized({0.4, 0.3, 0.15, 0, 0})},
  };
  for (const auto& [options, expected] : cases) {
    EXPECT_TRUE(close(tensor(frequencies(logits, options)), expected, 0.02)) << expected;
  }
  // The logits are negative, so the penalty multiplies the logits of tokens 0 and 1 by 2. This
  // squares their probabilities before normalization.
  EXPECT_TRUE(close(tensor(frequencies(logits, {.repetition_penalty = 2.0}, {0, 1})),
                    normalized({squared(0), squared(1), 0.15, 0.1, 0.05}), 0.02));
}

TEST(Sampling, TemperatureZeroTakesTheFirstOfTheLargestLogits) {
  const auto logits = tensor({1, 3, 3, -kInfinity});
  EXPECT_EQ(sample(logits, {.temperature = 0.0}), 1);
  EXPECT_EQ(sample(logits, {.temperature = 1e-300, .top_k = 1}), 1);
  EXPECT_EQ(sample(logits, {.top_p = 0.0}), 1);
  EXPECT_EQ(sample(logits, {.repetition_penalty = 2.0, .temperature = 0.0}, {1}), 2);
}

TEST(Sampling, SuppressedTokensAreNeverSampledWithAnyOption) {
  // Token 3 would complete the bigram (1, 3) again, and token 0 is suppressed.
  const auto logits = tensor({9, 1, 1, 9, 1});
  for (auto options : {SamplingOptions{.temperature = 0.0}, SamplingOptions{.temperature = 5.0},
                       SamplingOptions{.repetition_penalty = 1e-9}, SamplingOptions{.top_k = 2},
                       SamplingOptions{.top_p = 0.9}, SamplingOptions{.min_p = 0.5}}) {
    options.no_repeat_ngram_size = 2;
    options.suppress_tokens = {0};
    for (int i = 0; i < 20; ++i) {
      const auto token = sample(logits, options, {1, 3, 0, 1});
      EXPECT_TRUE(token != 0 && token != 3) << token;
    }
  }
}

TEST(Sampling, AllTokensSuppressedThrows) {
  EXPECT_THAT(
      [] {
        sample(torch::zeros(3), {.no_repeat_ngram_size = 1, .suppress_tokens = {0, 2}}, {1});
      },
      throws_naming<c10::ValueError>("suppress_tokens", "2", "no_repeat_ngram_size", "1"));
  EXPECT_THAT([] { sample(torch::zeros(3), {.suppress_tokens = {3}}); },
              throws_naming<c10::ValueError>("suppress_tokens", "3", "2"));
}

TEST(Sampling, SupportsAllFloatDtypesAndNeverSamplesMinusInfinity) {
  for (const auto dtype : {torch::kFloat, torch::kHalf, torch::kBFloat16}) {
    const auto logits = tensor({-kInfinity, -2, -kInfinity}).to(dtype);
    for (const auto& options : {SamplingOptions{.temperature = 1e300}, SamplingOptions{.top_k = 2},
                                SamplingOptions{.top_p = 0.5}, SamplingOptions{.min_p = 1.0}}) {
      EXPECT_EQ(sample(logits, options, {0, 1}), 1);
    }
  }
}

TEST(Sampling, ErrorMessagesNameTheValues) {
  const auto expect_rejected = [](const SamplingOptions& options, const char* text) {
    EXPECT_THAT([&] { sample(torch::zeros(3), options); }, throws<c10::ValueError>(text));
  };
  expect_rejected({.repetition_penalty = 0.0}, "repetition_penalty (0) must be positive");
  expect_rejected({.temperature = -1.0}, "temperature (-1)");
  expect_rejected({.temperature = kInfinity}, "temperature (inf)");
  expect_rejected({.temperature = std::nan("")}, "temperature (nan)");
  expect_rejected({.no_repeat_ngram_size = -1}, "no_repeat_ngram_size (-1)");
  expect_rejected({.top_k = -2}, "top_k (-2)");
  expect_rejected({.top_p = 1.5}, "top_p (1.5) must be in [0, 1]");
  expect_rejected({.min_p = -0.1}, "min_p (-0.1) must be in [0, 1]");
  EXPECT_THAT(
      [] {
        sample(torch::zeros({2, 3}));
      },
      throws<c10::ValueError>("(V) with V >= 1, found [2, 3]"));
  EXPECT_THAT([] { sample(tensor({0, std::nan("")})); }, throws<c10::Error>("NaN"));
  EXPECT_THAT([] { sample(tensor({0, kInfinity})); }, throws<c10::Error>("found inf"));
  EXPECT_THAT([] { sample(tensor({-kInfinity})); }, throws<c10::Error>("found -inf"));
}

}  // namespace
}  // namespace attend
