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

// As f1_score(average="macro") of scikit-learn, computed by hand.
TEST(MacroF1, IsTheMeanOfTheClassesThatOccur) {
  const auto matrix = of({1, 1, 0, 0, 1, 0, 1, 0, 2}).view({3, 3});
  EXPECT_DOUBLE_EQ(macro_f1(matrix), (1.0 / 2 + 2.0 / 3 + 4.0 / 5) / 3);
  // Class 2 has neither samples nor predictions.
  EXPECT_DOUBLE_EQ(macro_f1(of({2, 1, 0, 0, 1, 0, 0, 0, 0}).view({3, 3})), (4.0 / 5 + 2.0 / 3) / 2);
  // Class 1 is predicted, but has no samples.
  EXPECT_DOUBLE_EQ(macro_f1(of({3, 1, 0, 0}).view({2, 2})), (6.0 / 7) / 2);
}

TEST(MultiLabelConfusionMatrix, CountsEachLabelByItself) {
  const auto bools = [](std::vector<int64_t> values) {
    return of(std::move(values)).view({4, 2}).to(torch::kBool);
  };
  const auto matrix = multi_label_confusion_matrix(bools({1, 0, 0, 1, 1, 1, 0, 0}),
                                                   bools({1, 1, 1, 1, 0, 1, 0, 0}));
  EXPECT_TRUE(matrix.equal(of({1, 1, 1, 1, 1, 0, 1, 2}).view({2, 2, 2}))) << matrix;
  const auto metrics = class_metrics(matrix);
  EXPECT_DOUBLE_EQ(metrics[0].precision, 1.0 / 2);
  EXPECT_DOUBLE_EQ(metrics[0].recall, 1.0 / 2);
  EXPECT_DOUBLE_EQ(metrics[0].f1, 1.0 / 2);
  EXPECT_EQ(metrics[0].support, 2);
  EXPECT_DOUBLE_EQ(metrics[1].precision, 1.0);
  EXPECT_DOUBLE_EQ(metrics[1].recall, 2.0 / 3);
  EXPECT_DOUBLE_EQ(metrics[1].f1, 4.0 / 5);
  EXPECT_DOUBLE_EQ(macro_f1(matrix), (1.0 / 2 + 4.0 / 5) / 2);
  EXPECT_DOUBLE_EQ(micro_f1(matrix), 2.0 * 3 / (5 + 4));  // 3 hits, 5 labels, 4 predictions
}

TEST(MultiLabelConfusionMatrix, LabelsThatNeverOccurCountAsZero) {
  const auto none = torch::zeros({3, 2}, torch::kBool);
  const auto matrix = multi_label_confusion_matrix(none, none);
  EXPECT_EQ(macro_f1(matrix), 0.0);
  EXPECT_EQ(micro_f1(matrix), 0.0);
}

}  // namespace
}  // namespace attend::train
