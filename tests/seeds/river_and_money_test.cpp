// Reproduces the tutorial "Self-Attention from First Principles" and checks each number that the
// tutorial prints. The word 'bank' occurs in a sentence about a river and in one about money.
#include "attend/nn/self_attention.h"
#include "support/close.h"
#include "support/scores.h"

namespace attend {
namespace {

constexpr double kThreeDecimals = printed_to(3);

torch::Tensor matrix(std::initializer_list<std::initializer_list<double>> rows) {
  std::vector<torch::Tensor> lines;
  for (const auto& row : rows)
    lines.push_back(torch::tensor(std::vector<double>(row), torch::kFloat));
  return torch::stack(lines);
}

// Embeddings of the words stream, bank and mud.
torch::Tensor river() {
  return matrix({{1.2, 0.0, 0.0, 0.3}, {0.8, 0.8, 0.2, 0.0}, {0.9, 0.0, 0.0, 0.9}});
}

// Embeddings of the words money, bank and loan.
torch::Tensor finance() {
  return matrix({{0.0, 1.4, 0.0, 0.1}, {0.8, 0.8, 0.2, 0.0}, {0.0, 1.1, 0.0, 0.6}});
}

/// Sets a Linear's weight to the transpose of `right_factor`: the tutorial computes x @ W, a Linear
/// computes x @ W^T.
void set_weight(torch::nn::Linear& linear, const torch::Tensor& right_factor) {
  const torch::NoGradGuard no_grad;
  linear->weight.copy_(right_factor.t());
}

bool bank_vectors_are_equal(const torch::Tensor& in_river, const torch::Tensor& in_finance) {
  return torch::allclose(in_river[1], in_finance[1]);
}

TEST(RiverAndMoney, LinearGivesBankTheSameVectorInBothSentences) {
  torch::nn::Linear linear(torch::nn::LinearOptions(4, 3).bias(false));
  set_weight(linear, matrix({{1.0, 0.2, 0.0}, {0.1, 1.1, 0.0}, {0.5, 0.5, 1.0}, {0.0, 0.3, 0.8}}));
  const auto in_river = linear(river());
  const auto in_finance = linear(finance());
  EXPECT_TRUE(close(in_river,
                    matrix({{1.200, 0.330, 0.240}, {0.980, 1.140, 0.200}, {0.900, 0.450, 0.720}}),
                    kThreeDecimals));
  EXPECT_TRUE(close(in_finance,
                    matrix({{0.140, 1.570, 0.080}, {0.980, 1.140, 0.200}, {0.110, 1.390, 0.480}}),
                    kThreeDecimals));
  EXPECT_TRUE(bank_vectors_are_equal(in_river, in_finance));
}

TEST(RiverAndMoney, DotProductScoresMatch) {
  const auto scores = [](const torch::Tensor& x) {
    return scores_inside_attention(x, x, /*mask=*/{}, kUnscaled);
  };
  EXPECT_TRUE(close(scores(river()),
                    matrix({{1.530, 0.960, 1.350}, {0.960, 1.320, 0.720}, {1.350, 0.720, 1.620}}),
                    kThreeDecimals));
  EXPECT_TRUE(close(scores(finance()),
                    matrix({{1.970, 1.120, 1.600}, {1.120, 1.320, 0.880}, {1.600, 0.880, 1.570}}),
                    kThreeDecimals));
}

TEST(RiverAndMoney, AttentionWithoutParametersGivesBankDifferentVectors) {
  const auto attend = [](const torch::Tensor& x) {
    return attend::dot_product_attention(x, x, x, {}, {.scale = kUnscaled}).output;
  };
  EXPECT_TRUE(close(attend(river()),
                    matrix({{1.001, 0.188, 0.047, 0.438},
                            {0.949, 0.356, 0.089, 0.313},
                            {0.987, 0.150, 0.037, 0.520}}),
                    kThreeDecimals));
  EXPECT_TRUE(close(attend(finance()),
                    matrix({{0.161, 1.181, 0.040, 0.243},
                            {0.325, 1.078, 0.081, 0.190},
                            {0.158, 1.163, 0.040, 0.278}}),
                    kThreeDecimals));
  EXPECT_FALSE(bank_vectors_are_equal(attend(river()), attend(finance())));
}

TEST(RiverAndMoney, ProjectedAttentionGivesBankDifferentVectors) {
  SelfAttention attention(SelfAttentionOptions(4).qk_dim(2).v_dim(3).bias(false));
  set_weight(attention->query, matrix({{1.0, 0.0}, {0.0, 1.0}, {0.2, 0.2}, {0.0, 0.0}}));
  set_weight(attention->key, matrix({{1.0, 0.0}, {0.0, 1.0}, {0.0, 0.0}, {0.1, 0.1}}));
  set_weight(attention->value,
             matrix({{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}, {0.0, 0.0, 1.0}, {0.0, 0.0, 0.5}}));
  const auto in_river = attention->forward(river()).output;
  const auto in_finance = attention->forward(finance()).output;
  EXPECT_TRUE(close(in_river,
                    matrix({{0.992, 0.221, 0.261}, {0.957, 0.314, 0.256}, {0.986, 0.232, 0.263}}),
                    kThreeDecimals));
  EXPECT_TRUE(close(in_finance,
                    matrix({{0.188, 1.158, 0.169}, {0.297, 1.089, 0.180}, {0.204, 1.146, 0.172}}),
                    kThreeDecimals));
  EXPECT_FALSE(bank_vectors_are_equal(in_river, in_finance));
}

TEST(RiverAndMoney, SeedZeroGivesThePrintedContextVectors) {
  SelfAttention attention(SelfAttentionOptions(4).qk_dim(3).v_dim(3).bias(false));
  torch::manual_seed(0);  // gives the same numbers as in Python
  for (auto* linear : {&attention->query, &attention->key, &attention->value}) {
    set_weight(*linear, torch::rand({4, 3}));
  }
  const auto in_river = attention->forward(river()).output;
  const auto in_finance = attention->forward(finance()).output;
  EXPECT_TRUE(close(in_river,
                    matrix({{0.540, 0.705, 1.030}, {0.538, 0.706, 1.030}, {0.541, 0.703, 1.025}}),
                    kThreeDecimals));
  EXPECT_TRUE(close(in_finance,
                    matrix({{0.220, 0.418, 0.642}, {0.213, 0.404, 0.624}, {0.216, 0.409, 0.630}}),
                    kThreeDecimals));
  EXPECT_FALSE(bank_vectors_are_equal(in_river, in_finance));
}

}  // namespace
}  // namespace attend
