// Outputs and gradients of MixtureOfExperts. Its behaviour as a module is tested in
// mixture_of_experts_module_test.cpp.
#include "attend/nn/mixture_of_experts.h"

#include "support/close.h"
#include "support/gradient.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <algorithm>
#include <cmath>

namespace attend {
namespace {

using MixtureOptions = MixtureOfExpertsOptions;

FeedForwardOptions small_expert(int64_t embed_dim) {
  return FeedForwardOptions(embed_dim).dim_feedforward(3).activation(Activation::swiglu);
}

/// Reference for one token `x` (E): routes it in plain loops.
torch::Tensor one_token(MixtureOfExperts& mixture, const torch::Tensor& x) {
  const auto& options = mixture->options.experts();
  std::vector<double> score;
  double sum = 0.0;
  for (int64_t i = 0; i < options.num_experts(); ++i) {
    score.push_back(std::exp(mixture->router->weight[i].dot(x).item<double>()));
    sum += score.back();
  }
  std::vector<std::size_t> chosen;
  double chosen_sum = 0.0;
  auto left = score;
  for (int64_t k = 0; k < options.num_experts_per_tok(); ++k) {
    const auto best = std::max_element(left.begin(), left.end());
    chosen.push_back(static_cast<std::size_t>(best - left.begin()));
    chosen_sum += *best;
    *best = -1.0;
  }
  auto y = torch::zeros_like(x);
  for (const auto i : chosen) {
    auto& expert = mixture->experts->at<FeedForwardImpl>(i);
    const double weight = score[i] / (options.norm_topk_prob() ? chosen_sum : sum);
    y += weight * expert.forward(x.unsqueeze(0))[0];
  }
  return y;
}

TEST(MixtureOfExperts, MatchesReferenceInRandomCases) {
  seed_afresh();
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < 20; ++i) {
    const int64_t num_experts = draw(1, 5);
    const auto experts = ExpertsOptions(num_experts)
                             .num_experts_per_tok(draw(1, num_experts))
                             .norm_topk_prob(i % 2 == 0);
    const int64_t embed_dim = draw(1, 4);
    MixtureOfExperts mixture(MixtureOptions(small_expert(embed_dim), experts));
    mixture->to(torch::kDouble);
    const auto x = torch::randn({draw(1, 3), draw(1, 4), embed_dim}, torch::kDouble);
    const auto y = mixture(x);
    for (int64_t b = 0; b < x.size(0); ++b) {
      for (int64_t t = 0; t < x.size(1); ++t) {
        EXPECT_TRUE(within_rounding(y[b][t], leaves_of(*mixture, {x}), [&] {
          return one_token(mixture, x[b][t]);
        })) << mixture;
      }
    }
  }
}

/// Expert i returns unit vector i for any input. Channel i of the mixture's output is therefore the
/// routing weight of expert i.
MixtureOfExperts mixture_of_unit_vectors(const ExpertsOptions& experts) {
  const torch::NoGradGuard no_grad;
  const int64_t num_experts = experts.num_experts();
  MixtureOfExperts mixture(MixtureOptions(FeedForwardOptions(num_experts), experts));
  const auto units = torch::eye(num_experts);
  for (int64_t i = 0; i < num_experts; ++i) {
    auto& expert = mixture->experts->at<FeedForwardImpl>(static_cast<std::size_t>(i));
    expert.down->weight.zero_();
    expert.down->bias.copy_(units[i]);
  }
  return mixture;
}

TEST(MixtureOfExperts, EachTokenIsRoutedToItsTopExperts) {
  seed_afresh();
  for (const int64_t top_k : {1, 2, 6}) {
    auto mixture =
        mixture_of_unit_vectors(ExpertsOptions(6).num_experts_per_tok(top_k).norm_topk_prob(false));
    const auto x = torch::randn({4, 50, 6});
    const auto weights = mixture(x);  // (B, T, N)
    EXPECT_TRUE(close(weights.ne(0).sum(-1), torch::full({4, 50}, top_k), 0.0));
    const auto which = std::get<1>(mixture->router(x).topk(top_k, -1));
    EXPECT_TRUE(equals_in_float64(
        weights.gather(-1, which), mixture, {x}, [&](auto& exact, const Tensors& in) {
          return torch::softmax(exact->router(in[0]), -1).gather(-1, which);
        }));
  }
}

TEST(MixtureOfExperts, NormalizedWeightsAreASoftmaxOverTheSelectedExperts) {
  seed_afresh();
  auto mixture = mixture_of_unit_vectors(ExpertsOptions(6).num_experts_per_tok(2));
  const auto x = torch::randn({50, 6});
  const auto weights = mixture(x);
  const auto which = std::get<1>(mixture->router(x).topk(2, -1));
  EXPECT_TRUE(equals_in_float64(weights.gather(-1, which), mixture, {x},
                                [&](auto& exact, const Tensors& in) {
                                  return exact->router(in[0]).gather(-1, which).softmax(-1);
                                }));
  EXPECT_TRUE(close(weights.sum(-1), torch::ones({50}), 1e-6));
}

struct MixtureTest : FixedSeed, testing::Test {
  /// Changes the router: if the first channel of a token is positive, the token goes to expert 0.
  static void favour_expert_0(MixtureOfExperts& mixture) {
    const torch::NoGradGuard no_grad;
    mixture->router->weight.zero_()[0][0] = 100.0;
  }

  MixtureOfExperts mixture{MixtureOptions(FeedForwardOptions(8), ExpertsOptions(4))};
  torch::Tensor x = torch::randn({2, 5, 8});
};

TEST_F(MixtureTest, NoTokenIsDroppedIfAllAreRoutedToOneExpert) {
  mixture = MixtureOfExperts(
      MixtureOptions(FeedForwardOptions(8), ExpertsOptions(4).num_experts_per_tok(1)));
  favour_expert_0(mixture);
  const auto positive = torch::rand({100, 8}) + 0.5;
  const auto expected = mixture->experts->at<FeedForwardImpl>(0).forward(positive);
  EXPECT_TRUE(close(mixture(positive), expected, 1e-6));
}

TEST_F(MixtureTest, UnusedExpertsHaveZeroGradients) {
  mixture = MixtureOfExperts(
      MixtureOptions(FeedForwardOptions(8), ExpertsOptions(4).num_experts_per_tok(1)));
  favour_expert_0(mixture);
  mixture(torch::rand({100, 8}) + 0.5).sum().backward();
  for (std::size_t i = 0; i < 4; ++i) {
    const auto gradient = mixture->experts->at<FeedForwardImpl>(i).up->weight.grad();
    EXPECT_EQ(gradient.ne(0).any().item<bool>(), i == 0) << "expert " << i;
  }
}

TEST_F(MixtureTest, UnbatchedEqualsBatched) {
  EXPECT_TRUE(close(mixture(x[1]), mixture(x)[1], 1e-6));
}

TEST_F(MixtureTest, SupportsEmptyAndUnbatchedInputs) {
  for (const auto& input :
       {x.narrow(0, 0, 0), x.narrow(1, 0, 0), x.narrow(1, 0, 1), x[0], x[0].narrow(0, 0, 0)}) {
    EXPECT_EQ(mixture(input).sizes(), input.sizes());
  }
}

TEST_F(MixtureTest, SupportsStridedAndExpandedInputs) {
  const auto strided = torch::randn({5, 8, 2}).permute({2, 0, 1});
  EXPECT_TRUE(close(mixture(strided), mixture(strided.contiguous()), 1e-6));
  const auto expanded = x.narrow(0, 0, 1).expand({3, 5, 8});
  EXPECT_TRUE(close(mixture(expanded), mixture(expanded.contiguous()), 1e-6));
}

TEST_F(MixtureTest, GradientsEqualFiniteDifferences) {
  for (const bool norm_topk_prob : {true, false}) {
    MixtureOfExperts small(
        MixtureOptions(small_expert(3), ExpertsOptions(3).norm_topk_prob(norm_topk_prob)));
    small->to(torch::kDouble);
    auto leaves = small->parameters();
    leaves.push_back(torch::randn({2, 2, 3}, torch::kDouble).requires_grad_());
    EXPECT_TRUE(gradients_match([&] { return small(leaves.back()); }, leaves));
  }
}

TEST_F(MixtureTest, RouterWithOneExpertPerTokenLearnsOnlyUnnormalized) {
  for (const bool norm_topk_prob : {true, false}) {
    const auto experts = ExpertsOptions(4).num_experts_per_tok(1).norm_topk_prob(norm_topk_prob);
    MixtureOfExperts module(MixtureOptions(FeedForwardOptions(8), experts));
    module(x).sum().backward();
    EXPECT_EQ(module->router->weight.grad().ne(0).any().item<bool>(), !norm_topk_prob);
  }
}

}  // namespace
}  // namespace attend
