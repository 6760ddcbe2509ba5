// Reproduces the tutorial "Attention in Transformers" and checks each number that the tutorial
// prints. The tutorial computes attention in NumPy, with and without a mask. The query, the key and
// the value have shape (4, 8).
#include "seeds/four_tokens.h"

#include "attend/ops/attention.h"
#include "attend/ops/masks.h"
#include "support/close.h"
#include "support/reference.h"
#include "support/scores.h"

#include <cmath>
#include <limits>

namespace attend {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// The tutorial computes with unrounded inputs and prints them with 8 decimals. The tolerances below
// bound the effect of this rounding on each computed number.
constexpr double kRounding = 0.5e-8;

struct FourTokens : testing::Test {
  torch::Tensor query = four_tokens::query();
  torch::Tensor key = four_tokens::key();
  torch::Tensor value = four_tokens::value();

  /// Error bound of a score. Rounding the key changes the score by at most kRounding times the sum
  /// of the magnitudes of the query. Rounding the query changes it by at most kRounding times the
  /// sum of the magnitudes of the key. The printed score is itself rounded, which adds kRounding.
  double score_tolerance() const {
    const double sums =
        query.abs().sum(-1).max().item<double>() + key.abs().sum(-1).max().item<double>();
    return kRounding * (sums + 1);
  }
  double scaled_tolerance() const { return score_tolerance() / std::sqrt(8.0) + kRounding; }
  /// If no score changes by more than d, a weight w changes by at most 2 w (1 - w) d, to first
  /// order. This is at most d / 2.
  double weight_tolerance() const { return scaled_tolerance() / 2 + kRounding; }
  double output_tolerance() const {
    return weight_tolerance() * value.abs().sum(0).max().item<double>() + 2 * kRounding;
  }
};

double population_variance(const torch::Tensor& x) {
  return torch::var(x, /*unbiased=*/false).item<double>();
}

torch::Tensor printed_scaled() {
  return torch::tensor({{0.65149184, -0.83901603, 0.62913271, -0.77332466},
                        {0.0266122, -0.4767941, 0.20112173, -1.2530149},
                        {0.94516122, 0.70727867, 3.48879183, -1.13196428},
                        {1.3405138, -0.74982342, 1.51034652, -1.03725599}},
                       torch::kDouble);
}

torch::Tensor printed_bool_mask() {
  return torch::tensor({{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 1, 1, 0}, {1, 1, 1, 1}}).to(torch::kBool);
}

torch::Tensor printed_float_mask() {
  const double masked = -kInfinity;
  return torch::tensor({{0.0, masked, masked, masked},
                        {0.0, 0.0, masked, masked},
                        {0.0, 0.0, 0.0, masked},
                        {0.0, 0.0, 0.0, 0.0}},
                       torch::kDouble);
}

torch::Tensor printed_weights() {
  return torch::tensor({{1.0, 0.0, 0.0, 0.0},
                        {0.62325949, 0.37674051, 0.0, 0.0},
                        {0.06889859, 0.05431243, 0.87678898, 0.0},
                        {0.41640481, 0.05148655, 0.49348409, 0.03862455}},
                       torch::kDouble);
}

torch::Tensor printed_output() {
  return torch::tensor({{0.30484211, 1.62034263, 0.36740884, -0.98962018, 0.09368226, -1.75405572,
                         0.03991657, -0.06351192},
                        {0.02030891, 0.97214632, -0.1386252, -0.32711608, -0.27146733, -1.27070736,
                         0.2434847, -0.01481258},
                        {-0.57839079, 0.36992445, -0.56608594, -0.97314918, 0.97780242, 0.03238621,
                         -0.26283137, 1.59387267},
                        {-0.18902735, 0.86657486, -0.19833068, -0.89469337, 0.58802447, -0.60829466,
                         -0.11603942, 0.85752181}},
                       torch::kDouble);
}

TEST_F(FourTokens, ScoresAreDotProducts) {
  const auto expected = torch::tensor({{1.84269718, -2.37309569, 1.77945603, -2.18729245},
                                       {0.07527066, -1.34857736, 0.56885814, -3.54406134},
                                       {2.67331963, 2.00048616, 9.86779345, -3.20167848},
                                       {3.7915456, -2.12082091, 4.27190508, -2.93380296}},
                                      torch::kDouble);
  const auto scores = scores_inside_attention(query, key, /*mask=*/{}, kUnscaled);
  EXPECT_TRUE(close(scores, expected, score_tolerance()));
}

TEST_F(FourTokens, ScaledScoresAreDividedBySquareRootOfHeadDim) {
  EXPECT_TRUE(close(scores_inside_attention(query, key), printed_scaled(), scaled_tolerance()));
}

TEST_F(FourTokens, ScalingReducesTheVarianceOfTheScores) {
  const auto scores = scores_inside_attention(query, key, /*mask=*/{}, kUnscaled);
  const auto scaled = scores_inside_attention(query, key);
  // To first order, a variance changes by at most twice the standard deviation (1.23, ...) times
  // the largest change of an element.
  EXPECT_NEAR(population_variance(query), 1.5125745535077024, 2 * 1.23 * kRounding);
  EXPECT_NEAR(population_variance(key), 1.0357473030624733, 2 * 1.02 * kRounding);
  EXPECT_NEAR(population_variance(scores), 11.93390494969697, 2 * 3.46 * score_tolerance());
  EXPECT_NEAR(population_variance(scaled), 1.4917381187121208, 2 * 1.23 * scaled_tolerance());
}

TEST_F(FourTokens, CausalMaskIsLowerTriangular) {
  EXPECT_TRUE(torch::equal(causal_mask(query, key), printed_bool_mask()));
}

TEST_F(FourTokens, MaskedScoresAreMinusInfinity) {
  const double masked = -kInfinity;
  const auto expected = torch::tensor({{0.65149184, masked, masked, masked},
                                       {0.0266122, -0.4767941, masked, masked},
                                       {0.94516122, 0.70727867, 3.48879183, masked},
                                       {1.3405138, -0.74982342, 1.51034652, -1.03725599}},
                                      torch::kDouble);
  for (const auto& mask : {printed_bool_mask(), printed_float_mask()}) {
    const auto scores = scores_inside_attention(query, key, mask);
    EXPECT_TRUE(close(scores, expected, scaled_tolerance())) << mask;
  }
}

TEST_F(FourTokens, MaskedWeightsAndOutputMatchForAllKindsOfMasks) {
  const AttentionArgs causal{.causal = true};
  const AttentionArgs bool_mask{.mask = printed_bool_mask()};
  const AttentionArgs float_mask{.mask = printed_float_mask()};
  for (AttentionArgs args : {causal, bool_mask, float_mask}) {
    SCOPED_TRACE(args.causal ? "causal" : args.mask.toString());
    const auto fused = attend::dot_product_attention(query, key, value, args);
    EXPECT_TRUE(close(fused.output, printed_output(), output_tolerance()));
    args.need_weights = true;
    const auto [output, weights] = attend::dot_product_attention(query, key, value, args);
    EXPECT_TRUE(close(output, printed_output(), output_tolerance()));
    EXPECT_TRUE(close(weights, printed_weights(), weight_tolerance()));
  }
}

// For attention without a mask, the tutorial prints neither weights nor outputs. The reference is
// computed in loops.
TEST_F(FourTokens, UnmaskedWeightsAndOutputMatchReference) {
  const auto expected = attention_in_loops(query, key, value);
  const auto [output, weights] =
      attend::dot_product_attention(query, key, value, {.need_weights = true});
  EXPECT_TRUE(close(weights, expected.weights, 1e-14));
  EXPECT_TRUE(close(output, expected.output, 1e-14));
  EXPECT_TRUE(
      close(attend::dot_product_attention(query, key, value).output, expected.output, 1e-14));
}

TEST_F(FourTokens, UnmaskedRowsAreProbabilities) {
  const auto weights =
      attend::dot_product_attention(query, key, value, {.need_weights = true}).weights;
  EXPECT_TRUE(close(weights.sum(-1), torch::ones({4}), 1e-14));
  EXPECT_GT(weights.min().item<double>(), 0.0);  // each token also attends to later tokens
}

}  // namespace
}  // namespace attend
