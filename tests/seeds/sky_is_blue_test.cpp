// Reproduces the tutorial "Self Attention - Basics" and checks each number that the tutorial
// prints. The sentence is 'sky is blue': three tokens of width 2.
#include "attend/nn/self_attention.h"
#include "support/close.h"
#include "support/scores.h"

namespace attend {
namespace {

constexpr double kPrinted = printed_to(4);

/// The embedded sentence and a module with the three matrices of the tutorial. The matrices are
/// transposed: the tutorial computes x @ W, a Linear computes x @ W^T.
struct SkyIsBlue : testing::Test {
  SkyIsBlue() {
    const torch::NoGradGuard no_grad;
    attention->query->weight.copy_(
        torch::tensor({{-0.0271, -0.3840}, {-0.3940, -0.6610}}, torch::kFloat).t());
    attention->key->weight.copy_(
        torch::tensor({{-0.4109, 0.5777}, {-0.1162, -0.1661}}, torch::kFloat).t());
    attention->value->weight.copy_(
        torch::tensor({{-0.2045, 0.1210}, {-0.1712, -0.4462}}, torch::kFloat).t());
  }

  torch::Tensor embedded =
      torch::tensor({{-1.0720, -0.5001}, {-0.0020, -0.4311}, {-0.0020, -0.4311}}, torch::kFloat);
  SelfAttention attention{SelfAttentionOptions(2).bias(false)};
};

TEST_F(SkyIsBlue, QueriesMatch) {
  const auto expected =
      torch::tensor({{0.2261, 0.7422}, {0.1699, 0.2857}, {0.1699, 0.2857}}, torch::kDouble);
  EXPECT_TRUE(close(attention->query(embedded), expected, kPrinted));
}

TEST_F(SkyIsBlue, KeysMatch) {
  const auto expected =
      torch::tensor({{0.4986, -0.5362}, {0.0509, 0.0705}, {0.0509, 0.0705}}, torch::kDouble);
  EXPECT_TRUE(close(attention->key(embedded), expected, kPrinted));
}

TEST_F(SkyIsBlue, ValuesMatch) {
  const auto expected =
      torch::tensor({{0.3048, 0.0934}, {0.0742, 0.1921}, {0.0742, 0.1921}}, torch::kDouble);
  EXPECT_TRUE(close(attention->value(embedded), expected, kPrinted));
}

TEST_F(SkyIsBlue, LogitsAreDotProductsOfQueriesAndKeys) {
  const auto expected = torch::tensor(
      {{-0.2853, 0.0638, 0.0638}, {-0.0685, 0.0288, 0.0288}, {-0.0685, 0.0288, 0.0288}},
      torch::kDouble);
  const auto scores = scores_inside_attention(attention->query(embedded), attention->key(embedded),
                                              /*mask=*/{}, kUnscaled);
  EXPECT_TRUE(close(scores, expected, kPrinted));
}

TEST_F(SkyIsBlue, LogitsAreScaledBySquareRootOfHeadDim) {
  const auto expected = torch::tensor(
      {{-0.2017, 0.0451, 0.0451}, {-0.0484, 0.0204, 0.0204}, {-0.0484, 0.0204, 0.0204}},
      torch::kDouble);
  const auto scores = scores_inside_attention(attention->query(embedded), attention->key(embedded));
  EXPECT_TRUE(close(scores, expected, kPrinted));
}

TEST_F(SkyIsBlue, WeightsMatch) {
  const auto expected =
      torch::tensor({{0.2809, 0.3595, 0.3595}, {0.3182, 0.3409, 0.3409}, {0.3182, 0.3409, 0.3409}},
                    torch::kDouble);
  const auto weights = attention->forward(embedded, {.need_weights = true}).weights;
  EXPECT_TRUE(close(weights, expected, kPrinted));
}

TEST_F(SkyIsBlue, WeightRowsSumToOne) {
  const auto weights = attention->forward(embedded, {.need_weights = true}).weights;
  EXPECT_TRUE(close(weights.sum(-1), torch::ones({3}), 1e-6));
}

TEST_F(SkyIsBlue, OutputMatches) {
  const auto expected =
      torch::tensor({{0.1390, 0.1644}, {0.1476, 0.1607}, {0.1476, 0.1607}}, torch::kDouble);
  EXPECT_TRUE(close(attention->forward(embedded).output, expected, kPrinted));
  const auto with_weights = attention->forward(embedded, {.need_weights = true});
  EXPECT_TRUE(close(with_weights.output, expected, kPrinted));
}

TEST_F(SkyIsBlue, EqualTokensGetEqualOutputs) {
  const auto output = attention->forward(embedded).output;
  EXPECT_TRUE(close(output[1], output[2], 1e-7));
}

TEST_F(SkyIsBlue, BatchOfOneEqualsUnbatched) {
  const auto batched = attention->forward(embedded.unsqueeze(0)).output;
  EXPECT_TRUE(close(batched[0], attention->forward(embedded).output, 1e-6));
}

}  // namespace
}  // namespace attend
