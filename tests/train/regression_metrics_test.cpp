#include "attend/train/regression_metrics.h"

#include "support/seed.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attend::train {
namespace {

torch::Tensor numbers(std::vector<double> values) {
  return torch::tensor(values, torch::kDouble);
}

// Computed by hand, as mean_absolute_error and r2_score of scikit-learn and pearsonr of SciPy.
TEST(RegressionMetrics, OfFourSamples) {
  const auto metrics =
      regression_metrics(regression_moments(numbers({2, 0, 2, 8}), numbers({3, -1, 2, 7})));
  EXPECT_DOUBLE_EQ(metrics.mae, 3.0 / 4);
  EXPECT_DOUBLE_EQ(metrics.mse, 3.0 / 4);
  EXPECT_NEAR(metrics.r2, 1.0 - 3.0 / 32.75, 1e-14);
  EXPECT_NEAR(metrics.pearson, 33.0 / std::sqrt(36.0 * 32.75), 1e-14);
}

TEST(RegressionMetrics, MomentsOfBatchesAreAdded) {
  seed_afresh();
  const auto predicted = torch::randn({50}) + 1000;
  const auto targets = predicted + torch::randn({50});
  const auto whole = regression_metrics(regression_moments(predicted, targets));
  torch::Tensor sum = torch::zeros({8}, torch::kDouble);
  for (int64_t begin = 0; begin < 50; begin += 7) {
    sum += regression_moments(predicted.slice(0, begin, begin + 7),
                              targets.slice(0, begin, begin + 7));
  }
  const auto parts = regression_metrics(sum);
  EXPECT_NEAR(parts.mae, whole.mae, 1e-10);
  EXPECT_NEAR(parts.r2, whole.r2, 1e-6);
  EXPECT_NEAR(parts.pearson, whole.pearson, 1e-6);
  const auto exact = targets.to(torch::kDouble);
  const auto deviation = (exact - exact.mean()).square().sum();
  const auto error = (predicted.to(torch::kDouble) - targets.to(torch::kDouble)).square().sum();
  EXPECT_NEAR(whole.r2, 1.0 - (error / deviation).item<double>(), 1e-6);
}

TEST(RegressionMetrics, AreNotDefinedForConstants) {
  const auto constant =
      regression_metrics(regression_moments(numbers({1, 2, 3}), numbers({0.1, 0.1, 0.1})));
  EXPECT_TRUE(std::isnan(constant.r2));
  EXPECT_TRUE(std::isnan(constant.pearson));
  const auto predicted =
      regression_metrics(regression_moments(numbers({0.1, 0.1, 0.1}), numbers({1, 2, 3})));
  EXPECT_TRUE(std::isnan(predicted.pearson));
  EXPECT_LT(predicted.r2, 0.0);
}

}  // namespace
}  // namespace attend::train
