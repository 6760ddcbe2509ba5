// Frequencies of rotary position embeddings and their scaling schemes.
#include "attend/ops/rotary.h"
#include "support/seed.h"
#include "support/throws.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace attend {
namespace {

using Frequencies = std::vector<double>;

constexpr double kCircle = 2.0 * std::numbers::pi;

void expect_frequencies(const Frequencies& found, const std::vector<std::pair<int, double>>& some) {
  for (const auto& [pair, expected] : some) {
    EXPECT_NEAR(found.at(static_cast<size_t>(pair)) / expected, 1.0, 1e-5) << "pair " << pair;
  }
}

void expect_equal(const Frequencies& found, const Frequencies& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1.0, 1e-12) << i;
}

Frequencies without_scaling(double width, double theta) {
  Frequencies frequencies;
  for (double i = 0; i < width; i += 2) frequencies.push_back(1.0 / std::pow(theta, i / width));
  return frequencies;
}

Frequencies llama3_scaled(Frequencies frequencies, double factor, double context) {
  for (auto& f : frequencies) {
    const double wavelength = kCircle / f;
    const double smooth = (context / wavelength - 1.0) / (4.0 - 1.0);
    if (wavelength > context / 1.0) {
      f /= factor;
    } else if (wavelength >= context / 4.0) {
      f = (1.0 - smooth) * f / factor + smooth * f;
    }
  }
  return frequencies;
}

Frequencies yarn_scaled(Frequencies frequencies, double theta, double factor, double context) {
  const double width = 2.0 * static_cast<double>(frequencies.size());
  const auto correction = [&](double rotations) {
    return width * std::log(context / (rotations * kCircle)) / (2.0 * std::log(theta));
  };
  const double low = std::max(std::floor(correction(32.0)), 0.0);
  const double high = std::min(std::ceil(correction(1.0)), width - 1.0);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double ramp = (static_cast<double>(i) - low) / (low == high ? 0.001 : high - low);
    ramp = std::min(std::max(ramp, 0.0), 1.0);
    frequencies[i] = frequencies[i] / factor * ramp + frequencies[i] * (1.0 - ramp);
  }
  return frequencies;
}

TEST(RotaryFrequencies, AreGeometricFromOneToOneOverTheta) {
  EXPECT_THAT(rotary_frequencies(4),
              testing::ElementsAre(testing::DoubleEq(1.0), testing::DoubleEq(0.01)));
  expect_equal(rotary_frequencies(64, {.theta = 500.0}), without_scaling(64, 500.0));
}

TEST(RotaryFrequencies, RotaryDimReplacesHeadDim) {
  EXPECT_EQ(rotary_frequencies(64, {.rotary_dim = 16}), rotary_frequencies(16));
}

TEST(RotaryFrequencies, LinearScalingDividesAllFrequencies) {
  auto expected = without_scaling(32, 10000.0);
  for (auto& frequency : expected) frequency /= 4.0;
  expect_equal(rotary_frequencies(32, {.scaling = RotaryScaling::linear, .factor = 4.0}), expected);
}

TEST(RotaryFrequencies, NtkScalingChangesTheBase) {
  const auto found = rotary_frequencies(128, {.scaling = RotaryScaling::ntk, .factor = 4.0});
  expect_equal(found, without_scaling(128, 10000.0 * std::pow(4.0, 128.0 / 126.0)));
  expect_frequencies(found, {{0, 1.0}, {1, 0.847117}, {32, 0.00494529}, {63, 2.88696e-05}});
  EXPECT_NEAR(found.back(), without_scaling(128, 10000.0).back() / 4.0, 1e-12);
  EXPECT_EQ(rotary_frequencies(2, {.scaling = RotaryScaling::ntk, .factor = 4.0}), Frequencies{1});
}

// The expected values are from Hugging Face transformers in float32, with the options of Llama 3.1.
TEST(RotaryFrequencies, Llama3ScalingMatchesLlama31) {
  const RotaryOptions options{.theta = 500000.0,
                              .scaling = RotaryScaling::llama3,
                              .factor = 8.0,
                              .original_max_seq_len = 8192};
  expect_frequencies(rotary_frequencies(128, options), {{0, 1.0},
                                                        {1, 0.814617},
                                                        {28, 0.00321145},
                                                        {29, 0.00216657},
                                                        {32, 0.000524846},
                                                        {34, 0.000178508},
                                                        {35, 9.55621e-05},
                                                        {40, 3.4281e-05},
                                                        {63, 3.06893e-07}});
}

// The expected values are from Hugging Face transformers. The second case has the options of
// gpt-oss.
TEST(RotaryFrequencies, YarnScalingMatchesPublishedModels) {
  const RotaryOptions yarn{
      .scaling = RotaryScaling::yarn, .factor = 4.0, .original_max_seq_len = 4096};
  expect_frequencies(rotary_frequencies(128, yarn), {{0, 1.0},
                                                     {20, 0.0562341},
                                                     {21, 0.047292},
                                                     {30, 0.00948852},
                                                     {40, 0.00133789},
                                                     {46, 0.00033338},
                                                     {63, 2.88695e-05}});
  const RotaryOptions gpt_oss{.theta = 150000.0,
                              .scaling = RotaryScaling::yarn,
                              .factor = 32.0,
                              .original_max_seq_len = 4096,
                              .truncate = false};
  expect_frequencies(rotary_frequencies(64, gpt_oss), {{0, 1.0},
                                                       {8, 0.0508133},
                                                       {9, 0.0317057},
                                                       {12, 0.00679496},
                                                       {16, 0.000456484},
                                                       {18, 3.83088e-05},
                                                       {31, 3.02351e-07}});
}

TEST(RotaryFrequencies, ScaledFrequenciesMatchFormulasInRandomCases) {
  seed_afresh();
  for (int round = 0; round < 50; ++round) {
    const int64_t width = 2 * draw(1, 40);
    const int64_t context = draw(256, 20000);
    const double factor = 1.0 + static_cast<double>(draw(0, 40)) / 4.0;
    const double theta = std::pow(10.0, static_cast<double>(draw(2, 6)));
    RotaryOptions options{.theta = theta, .factor = factor, .original_max_seq_len = context};
    const auto plain = without_scaling(static_cast<double>(width), theta);
    options.scaling = RotaryScaling::llama3;
    expect_equal(rotary_frequencies(width, options),
                 llama3_scaled(plain, factor, static_cast<double>(context)));
    options.scaling = RotaryScaling::yarn;
    expect_equal(rotary_frequencies(width, options),
                 yarn_scaled(plain, theta, factor, static_cast<double>(context)));
  }
}

TEST(RotaryAttentionScaling, IsOneExceptForYarn) {
  RotaryOptions options{.factor = 32.0, .original_max_seq_len = 4096};
  for (const auto scaling : {RotaryScaling::linear, RotaryScaling::ntk, RotaryScaling::llama3}) {
    options.scaling = scaling;
    EXPECT_EQ(rotary_attention_scaling(options), 1.0);
  }
  options.scaling = RotaryScaling::yarn;
  EXPECT_NEAR(rotary_attention_scaling(options), 1.3465736, 1e-7);
  options.attention_factor = 0.75;
  EXPECT_EQ(rotary_attention_scaling(options), 0.75);
}

TEST(RotaryOptionsErrors, ValuesOutOfRangeThrow) {
  const auto with = [](RotaryOptions options) {
    return [options] { rotary_frequencies(8, options); };
  };
  const auto yarn = RotaryScaling::yarn;
  const auto llama3 = RotaryScaling::llama3;
  EXPECT_THAT(
      [] { rotary_frequencies(7); },
      throws<c10::ValueError>("rotary_dim (7) must be even, positive and at most head_dim"));
  EXPECT_THAT(with({.rotary_dim = 10}),
              throws<c10::ValueError>("rotary_dim (10) must be even, positive and at most head_dim "
                                      "(8)"));
  EXPECT_THAT(with({.rotary_dim = 3}), throws<c10::ValueError>("rotary_dim (3) must be even"));
  EXPECT_THAT(with({.rotary_dim = -2}), throws<c10::ValueError>("rotary_dim (-2)"));
  EXPECT_THAT(with({.theta = INFINITY}),
              throws<c10::ValueError>("theta (inf) must be finite and greater than 1"));
  EXPECT_THAT(with({.theta = 0.0}),
              throws<c10::ValueError>("theta (0) must be finite and greater than 1"));
  EXPECT_THAT(with({.scaling = RotaryScaling::linear, .factor = 0.5}),
              throws<c10::ValueError>("factor (0.5) must be finite and at least 1"));
  EXPECT_THAT(with({.factor = 2.0}),
              throws<c10::ValueError>("factor (2) must be 1 without scaling"));
  EXPECT_THAT(
      with({.scaling = yarn, .factor = 2.0}),
      throws<c10::ValueError>("scaling yarn requires a positive original_max_seq_len, found 0"));
  EXPECT_THAT(
      with({.scaling = llama3, .factor = 2.0, .original_max_seq_len = -1}),
      throws<c10::ValueError>("scaling llama3 requires a positive original_max_seq_len, found -1"));
  EXPECT_THAT(with({.scaling = yarn, .original_max_seq_len = 64, .beta_fast = 1.0}),
              throws<c10::ValueError>("beta_fast (1) must be greater than beta_slow (1)"));
  EXPECT_THAT(with({.scaling = yarn, .original_max_seq_len = 64, .attention_factor = -1.0}),
              throws<c10::ValueError>("attention_factor (-1) must be finite and not negative"));
  EXPECT_THAT(with({.scaling = yarn, .original_max_seq_len = 64, .attention_factor = INFINITY}),
              throws<c10::ValueError>("attention_factor (inf) must be finite and not negative"));
  EXPECT_THAT(with({.scaling = yarn, .original_max_seq_len = 64, .beta_fast = INFINITY}),
              throws<c10::ValueError>("beta_fast (inf)"));
  EXPECT_THAT(with({.scaling = llama3, .original_max_seq_len = 64, .low_freq_factor = -1.0}),
              throws<c10::ValueError>("low_freq_factor (-1), which must not be negative"));
  EXPECT_THAT(with({.scaling = llama3, .original_max_seq_len = 64, .high_freq_factor = INFINITY}),
              throws<c10::ValueError>("high_freq_factor (inf)"));
  EXPECT_THAT(with({.scaling = llama3, .original_max_seq_len = 64, .low_freq_factor = 4.0}),
              throws<c10::ValueError>("high_freq_factor (4) must be greater than low_freq_factor "
                                      "(4)"));
}

}  // namespace
}  // namespace attend
