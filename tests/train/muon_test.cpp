#include "attend/train/optimizer.h"
#include "support/close.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"
#include "train/device.h"

#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/linalg_svdvals.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <vector>

namespace attend::train {
namespace {

/// The exact result of Newton-Schulz: applies the five iterations to the singular values of the
/// float64 matrix `x`.
torch::Tensor exactly_orthogonalized(const torch::Tensor& x) {
  const auto [u, s, vh] = at::linalg_svd(x / x.norm(), /*full_matrices=*/false);
  auto values = s;
  for (int round = 0; round < 5; ++round) {
    values = 3.4445 * values - 4.7750 * values.pow(3) + 2.0315 * values.pow(5);
  }
  return (u * values).mm(vh);
}

/// Succeeds if `found`, whose products were computed in bfloat16, is the orthogonalized matrix.
testing::AssertionResult is_orthogonalized(const torch::Tensor& found,
                                           const torch::Tensor& matrix) {
  return equals_in_float64(found, {matrix},
                           [](const Tensors& in) { return exactly_orthogonalized(in[0]); },
                           {.dtype = torch::kBFloat16});
}

/// A random matrix without tiny singular values, which bfloat16 could not resolve.
torch::Tensor well_conditioned(int64_t rows, int64_t columns) {
  const auto [u, s, vh] = at::linalg_svd(torch::randn({rows, columns}), /*full_matrices=*/false);
  return (u * (0.2 + torch::rand_like(s))).mm(vh);
}

TEST(Muon, NewtonSchulzKeepsSingularVectorsAndBringsValuesNearOne) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    const int64_t largest = i % 2 == 0 ? 20 : 100;  // small and large matrices have other kernels
    const auto matrix = well_conditioned(draw(1, largest), draw(1, largest));
    const auto found = newton_schulz(matrix);
    EXPECT_EQ(found.scalar_type(), torch::kBFloat16);
    EXPECT_TRUE(is_orthogonalized(found, matrix));
    const auto values = at::linalg_svdvals(found.to(torch::kFloat));
    EXPECT_GT(values.min().item<double>(), 0.6) << matrix.sizes();
    EXPECT_LT(values.max().item<double>(), 1.3) << matrix.sizes();
  }
}

TEST(Muon, NewtonSchulzCommutesWithTransposition) {
  seed_afresh();
  const auto tall = torch::randn({9, 4});
  EXPECT_TRUE(newton_schulz(tall).t().equal(newton_schulz(tall.t())));
}

TEST(Muon, NewtonSchulzOrthogonalizesEachMatrixOfABatch) {
  seed_afresh();
  for (const int64_t largest : {20, 100}) {
    const auto rows = draw(1, largest), columns = draw(1, largest);
    const auto first = well_conditioned(rows, columns), second = well_conditioned(rows, columns);
    const auto found = newton_schulz(torch::stack({first, 100 * second}));
    EXPECT_TRUE(is_orthogonalized(found[0], first));
    EXPECT_TRUE(is_orthogonalized(found[1], second));
  }
}

TEST(Muon, NewtonSchulzKeepsZeros) {
  EXPECT_TRUE(newton_schulz(torch::zeros({3, 2})).eq(0).all().item<bool>());
}

/// A Linear whose weight has the gradient `gradient`, and its Muon optimizer.
struct OneMatrix {
  explicit OneMatrix(const torch::Tensor& gradient, const TrainingConfig& config = {})
      : linear(torch::nn::LinearOptions(gradient.size(1), gradient.size(0)).bias(false)),
        optimizer(trainable_parameters(*linear), config) {
    linear->weight.mutable_grad() = gradient;
  }
  torch::nn::Linear linear;
  Muon optimizer;
};

TEST(Muon, FirstUpdateIsTheOrthogonalizedGradientWithAdamWsRms) {
  seed_afresh();
  const auto gradient = well_conditioned(8, 32);
  TrainingConfig config;
  config.weight_decay = 0.0;
  OneMatrix one(gradient, config);
  const auto before = one.linear->weight.detach().clone();
  set_lr(one.optimizer, 0.01);
  one.optimizer.step();
  const auto moved = before - one.linear->weight.detach();
  const double scale = 0.01 * 0.2 * std::sqrt(32.0);
  EXPECT_TRUE(is_orthogonalized(moved / scale, gradient));
  const double root_mean_square = moved.pow(2).mean().sqrt().item<double>();
  EXPECT_NEAR(root_mean_square / 0.01, 0.2, 0.06);
}

TEST(Muon, MatricesOfOneShapeAreUpdatedWithTheirOwnGradients) {
  seed_afresh();
  const torch::nn::ModuleList linears(torch::nn::Linear(32, 8), torch::nn::Linear(8, 32),
                                      torch::nn::Linear(32, 8), torch::nn::Linear(32, 8));
  std::vector<TrainableParameter> matrices;
  for (auto& each : trainable_parameters(*linears)) {
    if (each.tensor.dim() == 2) matrices.push_back(each);
  }
  std::vector<torch::Tensor> gradients, before;
  for (auto& each : matrices) {
    gradients.push_back(well_conditioned(each.tensor.size(0), each.tensor.size(1)));
    before.push_back(each.tensor.detach().clone());
    each.tensor.mutable_grad() = gradients.back();
  }
  matrices.back().tensor.mutable_grad().reset();
  TrainingConfig config;
  config.weight_decay = 0.0;
  Muon optimizer(matrices, config);
  set_lr(optimizer, 0.01);
  optimizer.step();
  const double scale = 0.01 * 0.2 * std::sqrt(32.0);
  for (std::size_t i = 0; i + 1 < matrices.size(); ++i) {
    const auto moved = before[i] - matrices[i].tensor.detach();
    EXPECT_TRUE(is_orthogonalized(moved / scale, gradients[i])) << i;
  }
  EXPECT_TRUE(matrices.back().tensor.equal(before.back()));
}

// Each thread updates whole matrices if there are at least as many large matrices as threads.
TEST(Muon, LargeMatricesGetTheSameUpdatesTogetherAndOneByOne) {
  seed_afresh();
  const TrainingConfig config;
  std::vector<torch::Tensor> begin;
  for (int i = 0; i < 7; ++i) begin.push_back(torch::randn({draw(256, 300), draw(260, 300)}));
  const auto copies = [&] {
    std::vector<TrainableParameter> all;
    for (const auto& matrix : begin)
      all.push_back({"matrix", matrix.clone().requires_grad_(), ParameterRole::hidden_matrix});
    return all;
  };
  const auto together = copies(), again = copies(), separate = copies();
  Muon first(together, config), second(again, config);
  std::vector<std::unique_ptr<Muon>> one_by_one;
  for (const auto& each : separate)
    one_by_one.push_back(std::make_unique<Muon>(std::vector{each}, config));
  const NumThreadsGuard guard(3);
  for (int step = 0; step < 2; ++step) {
    for (std::size_t i = 1; i < begin.size(); ++i) {  // the first matrix has no gradient
      const auto gradient = torch::randn_like(begin[i]);
      for (const auto& parameters : {together, again, separate})
        parameters[i].tensor.mutable_grad() = gradient;
    }
    first.step();
    second.step();
    for (const auto& each : one_by_one) each->step();
  }
  EXPECT_TRUE(together[0].tensor.equal(begin[0]));
  for (std::size_t i = 1; i < begin.size(); ++i) {
    EXPECT_TRUE(together[i].tensor.equal(again[i].tensor)) << begin[i].sizes();
    // The number of threads can change the order of the sums in the norm and in the products.
    const double change = (separate[i].tensor - begin[i]).norm().item<double>();
    const double error = (together[i].tensor - separate[i].tensor).norm().item<double>();
    EXPECT_GT(change, 0.0);
    EXPECT_LE(error, 0.02 * change) << begin[i].sizes();
  }
}

TEST(Muon, WeightDecayIsDecoupled) {
  TrainingConfig config;
  config.weight_decay = 0.5;
  OneMatrix one(torch::zeros({3, 2}), config);
  const auto before = one.linear->weight.detach().clone();
  set_lr(one.optimizer, 0.1);
  one.optimizer.step();
  EXPECT_TRUE(close(one.linear->weight, before * (1.0 - 0.1 * 0.5), 1e-7));
}

TEST(Muon, DoesNotChangeMatricesWithoutGradient) {
  OneMatrix one(torch::ones({2, 2}));
  one.optimizer.zero_grad();
  EXPECT_FALSE(one.linear->weight.grad().defined());
  const auto before = one.linear->weight.detach().clone();
  set_lr(one.optimizer, 0.1);
  one.optimizer.step();
  EXPECT_TRUE(one.linear->weight.equal(before));
}

TEST(Muon, ThrowsForOtherThanMatrices) {
  const torch::nn::Linear linear(2, 3);
  EXPECT_THAT([&] { Muon(trainable_parameters(*linear), TrainingConfig{}); },
              throws<c10::ValueError>("Muon: expected matrices, found bias [3]"));
}

}  // namespace
}  // namespace attend::train
