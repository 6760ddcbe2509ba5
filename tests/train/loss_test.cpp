#include "attend/train/loss.h"

#include "attend/input_error.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace attend::train {
namespace {

/// Reference: adds the loss of one target at a time, in float64.
double loss_by_loop(const torch::Tensor& logits, const torch::Tensor& targets, double smoothing,
                    const torch::Tensor& weights = {}) {
  const auto scores = logits.to(torch::kDouble).flatten(0, -2);  // (targets, V)
  const auto flat = targets.flatten();
  const auto choices = static_cast<double>(scores.size(1));
  double loss = 0.0;
  for (int64_t i = 0; i < flat.size(0); ++i) {
    const auto target = flat[i].item<int64_t>();
    if (target == kIgnoreIndex) continue;
    auto nll = -(scores[i] - scores[i].logsumexp(0));  // (V)
    if (weights.defined()) nll = nll * weights;
    loss += (1 - smoothing) * nll[target].item<double>();
    loss += smoothing / choices * nll.sum().item<double>();
  }
  return loss;
}

TEST(Loss, EqualsALoopWithAndWithoutLabelSmoothing) {
  seed_afresh();
  for (const double smoothing : {0.0, 0.1, 0.9}) {
    for (const auto& shape : {std::vector<int64_t>{3, 4}, std::vector<int64_t>{6}}) {
      auto logits_shape = shape;
      logits_shape.push_back(draw(2, 9));
      const auto logits = torch::randn(logits_shape) * 3;
      auto targets = torch::randint(logits_shape.back(), shape, torch::kLong);
      targets.flatten()[1] = kIgnoreIndex;
      EXPECT_TRUE(equals_in_float64(
          summed_loss(logits, targets, smoothing), {logits}, [&](const Tensors& in) {
            return torch::full({}, loss_by_loop(in[0], targets, smoothing), torch::kDouble);
          }));
    }
  }
}

TEST(Loss, ClassWeightsMultiplyTheLossOfEachClass) {
  seed_afresh();
  for (const double smoothing : {0.0, 0.2}) {
    const auto logits = torch::randn({draw(2, 9), draw(2, 6)}) * 3;  // (B, C)
    const auto targets = torch::randint(logits.size(1), {logits.size(0)}, torch::kLong);
    const auto weights = torch::rand({logits.size(1)}) + 0.1;
    EXPECT_TRUE(equals_in_float64(
        summed_loss(logits, targets, smoothing, weights), {logits, weights},
        [&](const Tensors& in) {
          return torch::full({}, loss_by_loop(in[0], targets, smoothing, in[1]), torch::kDouble);
        }));
  }
}

TEST(ClassWeights, BalancedIsThatOfScikitLearn) {
  // 10 samples and 3 classes: 10 / (3 * count).
  const auto weights = class_weights("balanced", torch::tensor({5, 1, 4}, torch::kLong));
  EXPECT_TRUE(torch::allclose(weights, torch::tensor({10.0f / 15, 10.0f / 3, 10.0f / 12})));
}

TEST(ClassWeights, OfAListHaveTheMeanOneOverTheSamples) {
  const auto counts = torch::tensor({6, 2}, torch::kLong);
  const auto weights = class_weights("1,3", counts);
  EXPECT_TRUE(torch::allclose(weights, torch::tensor({8.0f / 12, 24.0f / 12})));
  EXPECT_TRUE(torch::allclose(class_weights("0.5,1.5", counts), weights));
  EXPECT_FALSE(class_weights("none", counts).defined());
}

TEST(ClassWeights, InvalidListsThrow) {
  const auto counts = torch::tensor({6, 2}, torch::kLong);
  for (const char* spec : {"", "1,", "1,0", "1,-2", "1,nan", "1,inf", "a,b", "1, 2", "Balanced"})
    EXPECT_THAT([&] { class_weights(spec, counts); },
                throws<InputError>(fmt::format("'{}'", spec).c_str()))
        << spec;
  EXPECT_THAT([&] { class_weights("1,2,3", counts); },
              throws_naming<InputError>("class_weights", "'1,2,3'", "3", "2"));
}

TEST(Loss, IsSummedInFloat32ForAllDtypes) {
  const auto logits = torch::zeros({5000, 2}, torch::kBFloat16);
  const auto loss = summed_loss(logits, torch::zeros({5000}, torch::kLong));
  EXPECT_EQ(loss.scalar_type(), torch::kFloat);
  EXPECT_NEAR(loss.item<double>(), 5000 * std::log(2.0), 0.05);
  const auto exact = summed_loss(logits.to(torch::kDouble), torch::zeros({5000}, torch::kLong));
  EXPECT_EQ(exact.scalar_type(), torch::kDouble);
}

TEST(MultiLabelLoss, EqualsTheBinaryCrossEntropyOfEachLabel) {
  seed_afresh();
  const auto rows = draw(1, 5);
  const auto labels = draw(1, 6);
  const auto logits = torch::randn({rows, labels}) * 4;
  const auto targets = torch::randint(2, {rows, labels}).to(torch::kFloat);
  const auto loss = multi_label_loss(logits, targets);
  const auto expected = [&](const Tensors& in) {
    const auto p = in[0].sigmoid();
    const auto y = targets.to(torch::kDouble);
    return -(y * p.log() + (1 - y) * (1 - p).log()).mean(1).sum();
  };
  // The loss of an element is a difference of terms of the size of its logit.
  const Rounding rounding{.largest_term = logits.abs().mean(1).sum().item<double>()};
  EXPECT_TRUE(equals_in_float64(loss.sum, {logits}, expected, rounding));
  int64_t correct = 0;
  for (int64_t i = 0; i < rows; ++i) correct += logits[i].ge(0).equal(targets[i].to(torch::kBool));
  EXPECT_EQ(loss.exact_match().correct, correct);
  EXPECT_EQ(loss.exact_match().total, rows);
  EXPECT_THAT([&] { multi_label_loss(logits, targets[0]); }, throws<c10::ValueError>("found ["));
}

TEST(RegressionLoss, IsTheSquaredErrorSummedOverTheSamples) {
  const auto predicted = torch::tensor({{1.0f}, {3.0f}}).to(torch::kBFloat16);
  const auto loss = regression_loss(predicted, torch::tensor({{0.0f}, {5.0f}}));
  EXPECT_EQ(loss.sum.item<double>(), 5.0);
  EXPECT_EQ(loss.sum.scalar_type(), torch::kFloat);
  EXPECT_EQ(loss.exact_match, nullptr);
  EXPECT_THAT([&] { regression_loss(predicted, torch::zeros({2})); },
              throws<c10::ValueError>("found [2]"));
}

TEST(Loss, CountsTheSamplesOfLabelsAndNumbers) {
  Batch batch{torch::zeros({3, 2}, torch::kLong), torch::full({3, 4}, -100.0)};
  batch.problem.type = ProblemType::multi_label_classification;
  EXPECT_EQ(num_targets(batch), 3);
  batch.problem.type = ProblemType::regression;
  EXPECT_EQ(num_targets(batch), 3);
}

TEST(Loss, CountsTargetsThatAreNotIgnored) {
  const auto targets = torch::tensor({1, 0, 3, 2}, torch::kLong).view({2, 2});
  targets[1][0] = kIgnoreIndex;
  EXPECT_EQ(num_targets(Batch{targets, targets}), 3);
}

}  // namespace
}  // namespace attend::train
