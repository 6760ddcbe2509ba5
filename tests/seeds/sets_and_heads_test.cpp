// Checks the statements of the tutorial "Basic Self-Attention": attention without parameters, then
// queries, keys and values, scaling and multiple heads. The tutorial prints no numbers.
#include "attend/nn/multihead_attention.h"
#include "attend/nn/self_attention.h"
#include "support/close.h"
#include "support/modules.h"
#include "support/scores.h"
#include "support/seed.h"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace attend {
namespace {

torch::Tensor basic_attention(const torch::Tensor& x) {
  return attend::dot_product_attention(x, x, x, {}, {.scale = kUnscaled}).output;
}

struct SetsAndHeads : FixedSeed, testing::Test {
  torch::NoGradGuard no_grad;
  torch::Tensor order = torch::tensor({3, 0, 4, 1, 2});
};

TEST_F(SetsAndHeads, BasicAttentionIsAWeightedAverageOverAllInputs) {
  const auto x = torch::randn({5, 3}, torch::kDouble);
  const auto [y, w] =
      attend::dot_product_attention(x, x, x, {.need_weights = true}, {.scale = kUnscaled});
  for (int64_t i = 0; i < 5; ++i) {
    const auto raw = torch::mv(x, x[i]);  // w'_ij = x_i . x_j
    const auto expected = raw.exp() / raw.exp().sum();
    EXPECT_TRUE(close(w[i], expected, 1e-14));
    EXPECT_TRUE(close(y[i], torch::mv(x.t(), expected), 1e-14));
    EXPECT_NEAR(w[i].sum().item<double>(), 1.0, 1e-14);
  }
  EXPECT_TRUE(close(basic_attention(x),
                    torch::matmul(torch::softmax(torch::matmul(x, x.t()), -1), x), 1e-14));
}

TEST_F(SetsAndHeads, BasicAttentionIsPermutationEquivariant) {
  const auto x = torch::randn({5, 3}, torch::kDouble);
  const auto permuted = basic_attention(x.index_select(0, order));
  EXPECT_TRUE(close(permuted, basic_attention(x).index_select(0, order), 1e-14));
}

TEST_F(SetsAndHeads, AttentionWithParametersIsPermutationEquivariant) {
  const auto x = torch::randn({2, 5, 8});
  const auto permuted = x.index_select(1, order);
  SelfAttention one_head(SelfAttentionOptions(8));
  MultiheadAttention heads(8, 2);
  EXPECT_TRUE(close(one_head->forward(permuted).output,
                    one_head->forward(x).output.index_select(1, order), 1e-6));
  EXPECT_TRUE(close(heads->forward(permuted).output,
                    heads->forward(x).output.index_select(1, order), 1e-6));
}

TEST_F(SetsAndHeads, CausalAttentionIsNotPermutationEquivariant) {
  const auto x = torch::randn({5, 8});
  MultiheadAttention heads(8, 2);
  const AttentionArgs causal{.causal = true};
  EXPECT_FALSE(torch::allclose(heads->forward(x.index_select(0, order), causal).output,
                               heads->forward(x, causal).output.index_select(0, order)));
}

TEST_F(SetsAndHeads, SelfAttentionHasThreeSquareMatrices) {
  SelfAttention attention(SelfAttentionOptions(6).bias(false).scale(kUnscaled));
  attention->to(torch::kDouble);
  EXPECT_EQ(count_parameters(*attention), 3 * 6 * 6);
  const auto x = torch::randn({4, 6}, torch::kDouble);
  const auto y = attention->forward(x).output;
  for (int64_t i = 0; i < 4; ++i) {
    const auto q = torch::mv(attention->query->weight, x[i]);
    auto numerator = torch::zeros({6}, torch::kDouble);
    auto denominator = torch::zeros({}, torch::kDouble);
    for (int64_t j = 0; j < 4; ++j) {
      const auto e = torch::exp(torch::dot(q, torch::mv(attention->key->weight, x[j])));
      numerator += e * torch::mv(attention->value->weight, x[j]);
      denominator += e;
    }
    EXPECT_TRUE(close(y[i], numerator / denominator, 1e-13));
  }
}

TEST_F(SetsAndHeads, ScalingMakesScoresIndependentOfTheWidth) {
  for (const int64_t width : {16, 1024}) {
    const auto q = torch::randn({100, width});
    const auto k = torch::randn({100, width});
    const double root = std::sqrt(static_cast<double>(width));
    const auto standard_deviation = [](const torch::Tensor& scores) {
      return scores.std().item<double>();
    };
    EXPECT_NEAR(standard_deviation(scores_inside_attention(q, k)), 1.0, 0.05);
    if (width > 16) continue;  // without scaling, one width is enough
    EXPECT_NEAR(standard_deviation(scores_inside_attention(q, k, {}, kUnscaled)), root,
                0.05 * root);
  }
}

TEST_F(SetsAndHeads, ScalingPreventsVanishingGradients) {
  const torch::AutoGradMode with_gradient(true);
  const auto k = torch::randn({8, 1024});
  // For each query, computes the gradient of one attention weight with respect to the query.
  // Returns the median of the norms, divided by the scale, which is a factor of each gradient.
  const auto gradient = [&](std::optional<double> scale) {
    auto q = torch::randn({101, 1024}).requires_grad_();
    const AttentionArgs args{.need_weights = true};
    const auto weights = attend::dot_product_attention(q, k, k, args, {.scale = scale}).weights;
    const auto of_queries = torch::autograd::grad({weights.select(1, 0).sum()}, {q})[0];
    return of_queries.norm(2, {-1}).median().item<double>() / scale.value_or(1 / 32.0);
  };
  EXPECT_LT(gradient(kUnscaled), 0.01 * gradient(std::nullopt));
}

TEST_F(SetsAndHeads, NarrowHeadsProjectWidth256To64) {
  const int64_t k = 256;
  const int64_t h = 4;
  MultiheadAttention narrow(MultiheadAttentionOptions(k, h).bias(false));
  EXPECT_EQ(narrow->qkv->weight.sizes(), at::IntArrayRef({3 * h * 64, k}));
  EXPECT_EQ(narrow->out->weight.sizes(), at::IntArrayRef({k, h * 64}));
  EXPECT_EQ(count_parameters(*narrow), 3 * h * (256 * 64) + k * k);
}

TEST_F(SetsAndHeads, WideHeadsHaveTheModelWidth) {
  const int64_t k = 256;
  const int64_t h = 4;
  MultiheadAttention wide(MultiheadAttentionOptions(k, h).head_dim(k).bias(false));
  EXPECT_EQ(count_parameters(*wide), h * 3 * (k * k) + (h * k) * k);
  const auto [output, weights] = wide->forward(torch::randn({3, k}), {.need_weights = true});
  EXPECT_EQ(output.sizes(), at::IntArrayRef({3, k}));
  EXPECT_EQ(weights.sizes(), at::IntArrayRef({h, 3, 3}));
}

/// Checks that multi-head attention equals h single-head attentions, concatenated and projected.
void expect_equals_concatenated_heads(int64_t head_dim) {
  const int64_t k = 8;
  const int64_t h = 2;
  MultiheadAttention heads(MultiheadAttentionOptions(k, h).head_dim(head_dim));
  const auto x = torch::randn({3, 5, k});
  const auto weights = heads->qkv->weight.unflatten(0, {3, h, head_dim});
  const auto biases = heads->qkv->bias.unflatten(0, {3, h, head_dim});
  std::vector<torch::Tensor> outputs;
  for (int64_t i = 0; i < h; ++i) {
    SelfAttention head(SelfAttentionOptions(k).qk_dim(head_dim).v_dim(head_dim));
    int64_t part = 0;
    for (auto* linear : {&head->query, &head->key, &head->value}) {
      (*linear)->weight.copy_(weights[part][i]);
      (*linear)->bias.copy_(biases[part][i]);
      ++part;
    }
    outputs.push_back(head->forward(x).output);
  }
  EXPECT_TRUE(close(heads->forward(x).output, heads->out(torch::cat(outputs, -1)), 1e-6));
}

TEST_F(SetsAndHeads, NarrowHeadsEqualParallelSelfAttention) {
  expect_equals_concatenated_heads(4);
}

TEST_F(SetsAndHeads, WideHeadsEqualParallelSelfAttention) {
  expect_equals_concatenated_heads(8);
}

TEST_F(SetsAndHeads, HeadsHaveDifferentWeights) {
  MultiheadAttention heads(8, 2);
  const auto weights = heads->forward(torch::randn({5, 8}), {.need_weights = true}).weights;
  EXPECT_FALSE(torch::allclose(weights[0], weights[1], 0, 1e-3));
}

}  // namespace
}  // namespace attend
