// Reproduces the tutorial "Self attention": attention over fifty embedded tokens, with unscaled and
// scaled scores. The tutorial draws its numbers without a seed, so the tests check properties
// instead of numbers. Comments in quotation marks are quotations from the tutorial.
#include "attend/nn/self_attention.h"
#include "support/close.h"
#include "support/seed.h"

#include <torch/nn/modules/embedding.h>

#include <cmath>

namespace attend {
namespace {

constexpr int64_t kLength = 50;
constexpr int64_t kVocabSize = 100;

struct SequenceCase {
  const char* name;
  int64_t embed_dim;
  int64_t out_dim;
  double divisor;  // the scores are divided by it

  friend std::ostream& operator<<(std::ostream& stream, const SequenceCase& self) {
    return stream << self.name;
  }
};

struct EmbeddedSequence : FixedSeed, testing::TestWithParam<SequenceCase> {
  const SequenceCase& shape = GetParam();
  torch::NoGradGuard no_grad;  // the tutorial uses @torch.no_grad()
  torch::Tensor x = torch::nn::Embedding(kVocabSize, shape.embed_dim)(torch::arange(kLength));
  SelfAttention attention{SelfAttentionOptions(shape.embed_dim)
                              .qk_dim(shape.out_dim)
                              .v_dim(shape.out_dim)
                              .scale(1 / shape.divisor)};
};

INSTANTIATE_TEST_SUITE_P(Texts, EmbeddedSequence,
                         testing::Values(SequenceCase{"Unscaled", 10, 10, 1.0},
                                         SequenceCase{"ScaledByModelWidth", 512, 100,
                                                      std::sqrt(512.0)}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EmbeddedSequence, OutputShape) {
  EXPECT_EQ(attention->forward(x).output.sizes(), at::IntArrayRef({kLength, shape.out_dim}));
}

TEST_P(EmbeddedSequence, MatchesFormula) {
  const auto q = attention->query(x);
  const auto k = attention->key(x);
  const auto v = attention->value(x);
  const auto alpha = torch::softmax(torch::matmul(q, k.t()) / shape.divisor, -1);
  const auto [output, weights] = attention->forward(x, {.need_weights = true});
  EXPECT_TRUE(close(weights, alpha, 1e-6));
  EXPECT_TRUE(close(output, torch::matmul(alpha, v), 1e-5));
  EXPECT_TRUE(close(attention->forward(x).output, torch::matmul(alpha, v), 1e-5));
}

TEST_P(EmbeddedSequence, WeightRowsAreProbabilities) {
  const auto weights = attention->forward(x, {.need_weights = true}).weights;
  EXPECT_TRUE(close(weights.sum(-1), torch::ones({kLength}), 1e-5));
  EXPECT_GE(weights.min().item<double>(), 0.0);
}

TEST_P(EmbeddedSequence, OutputIsWithinTheRangeOfTheValues) {
  const auto v = attention->value(x);
  const auto output = attention->forward(x).output;
  EXPECT_TRUE((output <= v.amax(0) + 1e-6).all().item<bool>());
  EXPECT_TRUE((output >= v.amin(0) - 1e-6).all().item<bool>());
  EXPECT_FALSE(torch::allclose(output, v));  // an average, not the value itself
}

double min_entropy_difference(const torch::Tensor& flatter, const torch::Tensor& sharper) {
  const auto entropy = [](const torch::Tensor& weights) {
    return -torch::xlogy(weights, weights).sum(-1);
  };
  return (entropy(flatter) - entropy(sharper)).min().item<double>();
}

// "Larger values don't play well with softmax, especially if not scaled: that can get skewed."
TEST(EmbeddedSequenceScaling, IncreasesTheEntropyOfEachRow) {
  torch::manual_seed(51);
  const torch::NoGradGuard no_grad;
  const auto x = torch::nn::Embedding(kVocabSize, 512)(torch::arange(kLength));
  SelfAttention attention(SelfAttentionOptions(512).qk_dim(100).v_dim(100).scale(kUnscaled));
  const auto unscaled = attention->forward(x, {.need_weights = true}).weights;
  attention->options.scale(1 / std::sqrt(512.0));
  const auto scaled = attention->forward(x, {.need_weights = true}).weights;
  EXPECT_GT(min_entropy_difference(scaled, unscaled), 0.1);
}

}  // namespace
}  // namespace attend
