// Load-balancing loss of MixtureOfExperts (Fedus et al. 2021, equation 4).
#include "attend/nn/mixture_of_experts.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <torch/nn/modules/container/modulelist.h>

namespace attend {
namespace {

using MixtureOptions = MixtureOfExpertsOptions;

MixtureOfExperts mixture_of(int64_t embed_dim, const ExpertsOptions& experts) {
  return MixtureOfExperts(
      MixtureOptions(FeedForwardOptions(embed_dim).dim_feedforward(2), experts));
}

/// Reference: equation 4 for `probabilities` (tokens, N), in plain loops.
double balance_in_loops(const torch::Tensor& probabilities, int64_t top_k) {
  const int64_t tokens = probabilities.size(0);
  const int64_t num_experts = probabilities.size(1);
  const auto chosen = std::get<1>(probabilities.topk(top_k, -1));
  double sum = 0.0;
  for (int64_t i = 0; i < num_experts; ++i) {
    double choices = 0.0;
    double probability = 0.0;
    for (int64_t t = 0; t < tokens; ++t) {
      choices += chosen[t].eq(i).sum().item<double>();
      probability += probabilities[t][i].item<double>();
    }
    const auto count = static_cast<double>(tokens);
    sum += choices / (count * static_cast<double>(top_k)) * (probability / count);
  }
  return static_cast<double>(num_experts) * sum;
}

TEST(RouterAuxLoss, MatchesFormulaInRandomCases) {
  seed_afresh();
  for (int i = 0; i < 10; ++i) {
    const int64_t num_experts = draw(1, 6);
    const int64_t top_k = draw(1, num_experts);
    auto mixture = mixture_of(4, ExpertsOptions(num_experts).num_experts_per_tok(top_k));
    mixture->to(torch::kDouble);
    const auto x = torch::randn({draw(1, 3), draw(1, 9), 4}, torch::kDouble);
    mixture(x);
    EXPECT_TRUE(within_rounding(mixture->aux_loss, leaves_of(*mixture, {x}), [&] {
      const auto probabilities = mixture->router(x).softmax(-1).flatten(0, 1);
      return torch::full({}, balance_in_loops(probabilities, top_k), torch::kDouble);
    }));
  }
}

TEST(RouterAuxLoss, IsOneForABalancedRouter) {
  const torch::NoGradGuard no_grad;
  auto mixture = mixture_of(4, ExpertsOptions(4).num_experts_per_tok(2));
  // Token t is routed to experts t and (t + 1) % 4.
  mixture->router->weight.copy_(100 * (torch::eye(4) + torch::eye(4).roll(1, 0)));
  mixture(torch::eye(4).repeat({3, 1, 1}));
  EXPECT_NEAR(mixture->aux_loss.item<double>(), 1.0, 1e-6);
}

TEST(RouterAuxLoss, IsNumExpertsOverTopKIfAllTokensChooseTheSameExperts) {
  const torch::NoGradGuard no_grad;
  auto mixture = mixture_of(4, ExpertsOptions(6).num_experts_per_tok(2));
  mixture->router->weight.zero_().slice(0, 0, 2).fill_(100.0);
  mixture(torch::rand({2, 5, 4}) + 0.5);
  EXPECT_NEAR(mixture->aux_loss.item<double>(), 6.0 / 2.0, 1e-5);
}

TEST(RouterAuxLoss, IsZeroWithoutTokens) {
  auto mixture = mixture_of(4, ExpertsOptions(3));
  mixture(torch::zeros({2, 0, 4}));
  mixture->aux_loss.backward();
  EXPECT_EQ(mixture->aux_loss.item<double>(), 0.0);
  EXPECT_TRUE(close(mixture->router->weight.grad(), torch::zeros({3, 4}), 0.0));
}

TEST(RouterAuxLoss, IsUpdatedByEachForward) {
  auto mixture = mixture_of(4, ExpertsOptions(3));
  EXPECT_FALSE(mixture->aux_loss.defined());
  mixture(torch::randn({2, 5, 4}));
  const auto first = mixture->aux_loss;
  mixture(torch::randn({2, 5, 4}));
  EXPECT_FALSE(close(mixture->aux_loss, first, 0.0));
  const auto copy = mixture->clone();
  EXPECT_FALSE(copy->as<MixtureOfExperts>()->aux_loss.defined())
      << "forward of the clone was not called";
}

TEST(RouterAuxLoss, IsDefinedInTrainingModeOnly) {
  auto mixture = mixture_of(4, ExpertsOptions(3));
  mixture(torch::randn({2, 5, 4}));
  EXPECT_TRUE(mixture->aux_loss.defined());
  mixture->eval();
  EXPECT_FALSE(mixture->aux_loss.defined());
  mixture(torch::randn({2, 5, 4}));
  EXPECT_FALSE(mixture->aux_loss.defined());
  mixture->train();
  mixture(torch::randn({2, 5, 4}));
  EXPECT_TRUE(mixture->aux_loss.defined());
}

TEST(RouterAuxLoss, GradientsEqualFiniteDifferences) {
  torch::manual_seed(1);
  auto mixture = mixture_of(3, ExpertsOptions(4));
  mixture->to(torch::kDouble);
  const auto x = torch::randn({2, 3, 3}, torch::kDouble).requires_grad_();
  const auto loss = [&] {
    mixture(x);
    return mixture->aux_loss;
  };
  EXPECT_TRUE(gradients_match(loss, {mixture->router->weight, x}));
}

TEST(RouterAuxLoss, MinimizingItBalancesTheRouter) {
  torch::manual_seed(1);
  auto mixture = mixture_of(4, ExpertsOptions(4).num_experts_per_tok(1));
  {
    const torch::NoGradGuard no_grad;
    mixture->router->weight[0].add_(1.0);
  }
  const auto x = torch::rand({1, 200, 4});
  mixture(x);
  const double skewed = mixture->aux_loss.item<double>();
  for (int step = 0; step < 100; ++step) {
    mixture->zero_grad();
    mixture->aux_loss.backward();
    const torch::NoGradGuard no_grad;
    mixture->router->weight.sub_(0.5 * mixture->router->weight.grad());
    const torch::AutoGradMode with_grad(true);
    mixture(x);
  }
  EXPECT_GT(skewed, 1.5);
  EXPECT_LT(mixture->aux_loss.item<double>(), 1.1);
}

TEST(RouterAuxLoss, OfAModuleIsTheSumOverItsExpertLayers) {
  auto first = mixture_of(4, ExpertsOptions(3));
  auto second = mixture_of(4, ExpertsOptions(5));
  auto idle = mixture_of(4, ExpertsOptions(2));
  torch::nn::ModuleList model(first, torch::nn::ModuleList(second), idle);
  second(first(torch::randn({2, 5, 4})));
  EXPECT_TRUE(close(router_aux_loss(*model), first->aux_loss + second->aux_loss, 1e-6));
  EXPECT_TRUE(close(router_aux_loss(*first), first->aux_loss, 0.0));
  router_aux_loss(*model).backward();
  EXPECT_TRUE(first->router->weight.grad().ne(0).any().item<bool>());
  EXPECT_TRUE(second->router->weight.grad().ne(0).any().item<bool>());
}

TEST(RouterAuxLoss, OfThePartsOfABatchIsThatOfTheBatch) {
  torch::manual_seed(1);
  torch::nn::ModuleList model(mixture_of(4, ExpertsOptions(3)),
                              mixture_of(4, ExpertsOptions(5).num_experts_per_tok(3)));
  model->to(torch::kDouble);
  const auto forward = [&](const torch::Tensor& x) {
    for (const auto& mixture : *model) mixture->as<MixtureOfExperts>()->forward(x);
  };
  const auto gradients = [&] {
    std::vector<torch::Tensor> copies;
    for (const auto& mixture : *model)
      copies.push_back(mixture->as<MixtureOfExperts>()->router->weight.grad().clone());
    model->zero_grad();
    return copies;
  };
  const auto x = torch::randn({7, 5, 4}, torch::kDouble);
  forward(x);
  const auto whole = router_aux_loss(*model);
  whole.backward();
  const auto expected = gradients();

  const auto parts = x.split_with_sizes({2, 5});
  auto chosen = torch::zeros({3 + 5}, torch::kDouble);
  const auto add = [&](torch::Tensor& sums) { chosen += sums; };
  for (const auto& part : parts) {
    forward(part);
    router_aux_loss(*model, add);
  }
  auto sum = torch::zeros({}, torch::kDouble);
  for (const auto& part : parts) {
    forward(part);
    const auto loss = router_aux_loss(*model, [&](torch::Tensor& sums) { sums.copy_(chosen); });
    loss.backward();
    sum += loss.detach();
  }
  EXPECT_TRUE(close(sum, whole, 1e-12));
  const auto found = gradients();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(close(found[i], expected[i], 1e-12));
}

TEST(RouterAuxLoss, IsZeroForModulesWithoutExperts) {
  EXPECT_TRUE(close(router_aux_loss(*FeedForward(FeedForwardOptions(4))), torch::zeros({}), 0.0));
  EXPECT_TRUE(close(router_aux_loss(*mixture_of(4, 3)), torch::zeros({}), 0.0))
      << "forward was not called";
  const auto fail = [](torch::Tensor& /*sums*/) { FAIL() << "nothing to add up"; };
  EXPECT_TRUE(close(router_aux_loss(*mixture_of(4, 3), fail), torch::zeros({}), 0.0));
}

}  // namespace
}  // namespace attend
