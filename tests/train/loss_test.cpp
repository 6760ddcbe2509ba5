#include "attend/train/loss.h"

#include "support/rounding.h"
#include "support/seed.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attend::train {
namespace {

/// Reference: adds the loss of one target at a time, in float64.
double loss_by_loop(const torch::Tensor& logits, const torch::Tensor& targets, double smoothing) {
  const auto scores = logits.to(torch::kDouble).flatten(0, -2);  // (targets, V)
  const auto flat = targets.flatten();
  const auto choices = static_cast<double>(scores.size(1));
  double loss = 0.0;
  for (int64_t i = 0; i < flat.size(0); ++i) {
    const auto target = flat[i].item<int64_t>();
    if (target == kIgnoreIndex) continue;
    const auto nll = -(scores[i] - scores[i].logsumexp(0));  // (V)
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

TEST(Loss, IsSummedInFloat32ForAllDtypes) {
  const auto logits = torch::zeros({5000, 2}, torch::kBFloat16);
  const auto loss = summed_loss(logits, torch::zeros({5000}, torch::kLong));
  EXPECT_EQ(loss.scalar_type(), torch::kFloat);
  EXPECT_NEAR(loss.item<double>(), 5000 * std::log(2.0), 0.05);
  const auto exact = summed_loss(logits.to(torch::kDouble), torch::zeros({5000}, torch::kLong));
  EXPECT_EQ(exact.scalar_type(), torch::kDouble);
}

TEST(Loss, CountsTargetsThatAreNotIgnored) {
  const auto targets = torch::tensor({1, 0, 3, 2}, torch::kLong).view({2, 2});
  targets[1][0] = kIgnoreIndex;
  EXPECT_EQ(num_targets(Batch{targets, targets}), 3);
}

}  // namespace
}  // namespace attend::train
