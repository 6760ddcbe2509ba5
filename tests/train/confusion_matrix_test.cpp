#include "attend/train/confusion_matrix.h"

#include <gtest/gtest.h>

namespace attend::train {
namespace {

torch::Tensor of(std::vector<int64_t> values) {
  return torch::tensor(values, torch::kLong);
}

TEST(ConfusionMatrix, RowIsTheTrueClassAndColumnThePredictedClass) {
  const auto matrix = confusion_matrix(of({0, 1, 1, 2, 0, 2}), of({0, 0, 1, 2, 2, 2}), 3);
  EXPECT_TRUE(matrix.equal(of({1, 1, 0, 0, 1, 0, 1, 0, 2}).view({3, 3}))) << matrix;
}

TEST(ConfusionMatrix, ContainsClassesWithoutSamplesAndPredictions) {
  const auto matrix = confusion_matrix(of({0}), of({1}), 4);
  EXPECT_EQ(matrix.sizes(), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(matrix[1][0].item<int64_t>(), 1);
  EXPECT_EQ(matrix.sum().item<int64_t>(), 1);
}

// The expected values are computed by hand.
TEST(ClassMetrics, OfThreeClasses) {
  const auto metrics = class_metrics(of({1, 1, 0, 0, 1, 0, 1, 0, 2}).view({3, 3}));
  const std::vector<ClassMetrics> expected{
      {1.0 / 2, 1.0 / 2, 1.0 / 2, 2}, {1.0 / 2, 1.0, 2.0 / 3, 1}, {1.0, 2.0 / 3, 4.0 / 5, 3}};
  ASSERT_EQ(metrics.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_DOUBLE_EQ(metrics[i].precision, expected[i].precision) << "class " << i;
    EXPECT_DOUBLE_EQ(metrics[i].recall, expected[i].recall) << "class " << i;
    EXPECT_DOUBLE_EQ(metrics[i].f1, expected[i].f1) << "class " << i;
    EXPECT_EQ(metrics[i].support, expected[i].support) << "class " << i;
  }
}

TEST(ClassMetrics, AreZeroIfAClassHasNoSamplesOrIsNeverPredicted) {
  // Class 0 is never predicted; class 1 has no samples.
  const auto metrics = class_metrics(of({0, 3, 0, 0}).view({2, 2}));
  for (const auto& each : metrics) {
    EXPECT_EQ(each.precision, 0.0);
    EXPECT_EQ(each.recall, 0.0);
    EXPECT_EQ(each.f1, 0.0);
  }
  EXPECT_EQ(metrics[0].support, 3);
  EXPECT_EQ(metrics[1].support, 0);
}

}  // namespace
}  // namespace attend::train
