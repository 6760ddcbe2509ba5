// A fully masked query row gives zeros and zero gradients and does not affect other rows.
#include "attend/ops/attention.h"
#include "support/close.h"
#include "support/seed.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace attend {
namespace {

struct MaskedRowCase {
  const char* name;
  torch::Tensor mask;
  bool causal;
  int64_t queries;
  int64_t keys;
  std::vector<int64_t> masked;

  friend std::ostream& operator<<(std::ostream& stream, const MaskedRowCase& self) {
    return stream << self.name;
  }
};

std::vector<MaskedRowCase> masked_row_cases() {
  const auto allowed = torch::tensor({{1, 0, 1}, {0, 0, 0}, {1, 1, 1}}).to(torch::kBool);
  const auto added = torch::tensor({{0.5, kMinusInfinity, 1.0},
                                    {kMinusInfinity, kMinusInfinity, kMinusInfinity},
                                    {0.0, -1.0, 2.0}});
  const auto not_first = torch::tensor({false, true, true});
  return {
      {"Bool", allowed, false, 3, 3, {1}},
      {"Float", added, false, 3, 3, {1}},
      {"BoolEverything", torch::zeros({3, 3}, torch::kBool), false, 3, 3, {0, 1, 2}},
      {"FloatEverything", torch::full({3, 3}, kMinusInfinity), false, 3, 3, {0, 1, 2}},
      {"CausalWithFewerKeys", {}, true, 4, 2, {0, 1}},
      {"CausalWithFewerKeysAndBool", torch::tensor({false, true}), true, 4, 2, {0, 1, 2}},
      {"CausalAndBool", not_first, true, 3, 3, {0}},
      {"CausalAndFloat", torch::where(not_first, 0.5, kMinusInfinity), true, 3, 3, {0}},
      {"BoolColumn", torch::tensor({{true}, {false}, {true}}), false, 3, 3, {1}},
  };
}

struct FullyMaskedRows : FixedSeed, testing::TestWithParam<std::tuple<MaskedRowCase, bool>> {
  FullyMaskedRows() {
    q = torch::randn({2, 2, test_case.queries, 4}).requires_grad_();
    k = torch::randn({2, 2, test_case.keys, 4}).requires_grad_();
    v = torch::randn({2, 2, test_case.keys, 5}).requires_grad_();
    for (int64_t t = 0; t < test_case.queries; ++t) {
      const bool is_masked = std::count(test_case.masked.begin(), test_case.masked.end(), t) > 0;
      (is_masked ? masked : unmasked).push_back(t);
    }
  }

  AttentionOutput attend() const {
    return attend::dot_product_attention(q, k, v,
                                         {.mask = test_case.mask,
                                          .causal = test_case.causal,
                                          .need_weights = std::get<1>(GetParam())});
  }
  static torch::Tensor rows(const torch::Tensor& x, const std::vector<int64_t>& which) {
    return x.index_select(-2, torch::tensor(which, torch::kLong));
  }

  const MaskedRowCase test_case = std::get<0>(GetParam());
  torch::Tensor q, k, v;
  std::vector<int64_t> masked, unmasked;
};

INSTANTIATE_TEST_SUITE_P(, FullyMaskedRows,
                         testing::Combine(testing::ValuesIn(masked_row_cases()), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) ? "WithWeights" : "");
                         });

TEST_P(FullyMaskedRows, OutputAndWeightsAreZero) {
  const auto [output, weights] = attend();
  const auto zeros = rows(output, masked);
  EXPECT_TRUE(close(zeros, torch::zeros_like(zeros), 0.0));
  EXPECT_TRUE(torch::isfinite(output).all().item<bool>());
  EXPECT_TRUE((rows(output, unmasked) != 0).all().item<bool>());
  if (!weights.defined()) return;
  EXPECT_TRUE(close(rows(weights, masked).sum(-1), torch::zeros_like(zeros.select(-1, 0)), 0.0));
  const auto sums = rows(weights, unmasked).sum(-1);
  EXPECT_TRUE(close(sums, torch::ones_like(sums), 1e-6));
}

TEST_P(FullyMaskedRows, QueryGradientIsZeroAndOtherGradientsAreUnaffected) {
  const auto cotangent = torch::randn({2, 2, test_case.queries, 5});
  (attend().output * cotangent).sum().backward();
  const auto masked_gradient = rows(q.grad(), masked);
  EXPECT_TRUE(close(masked_gradient, torch::zeros_like(masked_gradient), 0.0));
  const auto key_gradient = k.grad().clone();
  const auto value_gradient = v.grad().clone();
  EXPECT_TRUE(torch::isfinite(q.grad()).all().item<bool>());

  // Keys and values must get the same gradients from the unmasked queries alone.
  k.mutable_grad().reset();
  v.mutable_grad().reset();
  (rows(attend().output, unmasked) * rows(cotangent, unmasked)).sum().backward();
  EXPECT_TRUE(close(key_gradient, k.grad(), 1e-6));
  EXPECT_TRUE(close(value_gradient, v.grad(), 1e-6));
}

TEST_P(FullyMaskedRows, GradientThroughWeightsIsZero) {
  const auto weights = attend().weights;
  if (!weights.defined()) return;
  (weights * torch::randn_like(weights)).sum().backward();
  const auto masked_gradient = rows(q.grad(), masked);
  EXPECT_TRUE(close(masked_gradient, torch::zeros_like(masked_gradient), 0.0));
  EXPECT_TRUE(torch::isfinite(q.grad()).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(k.grad()).all().item<bool>());
}

TEST(FullyMaskedRowsOfLearnedMask, GradientIsZero) {
  torch::manual_seed(3);
  const auto x = torch::randn({1, 1, 2, 4});
  for (const bool need_weights : {false, true}) {
    auto mask = torch::tensor({{kMinusInfinity, kMinusInfinity}, {0.5, -0.5}}).requires_grad_();
    const AttentionArgs args{.mask = mask, .need_weights = need_weights};
    (attend::dot_product_attention(x, x, x, args).output * torch::randn({2, 4})).sum().backward();
    EXPECT_TRUE(close(mask.grad()[0], torch::zeros({2}), 0.0));
    EXPECT_TRUE((mask.grad()[1] != 0).all().item<bool>());
  }
}

// The lowest float32 overflows to -infinity in half dtypes: a row filled with it is fully masked.
TEST(FullyMaskedRowsInHalfDtypes, LowestFloat32MaskGivesZeros) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16}) {
    const auto x = torch::ones({1, 1, 2, 4}, dtype);
    auto mask = torch::zeros({2, 2});
    mask[0].fill_(std::numeric_limits<float>::lowest());
    for (const bool need_weights : {false, true}) {
      const AttentionArgs args{.mask = mask, .need_weights = need_weights};
      const auto y = attend::dot_product_attention(x, x, x, args).output;
      EXPECT_TRUE(close(y[0][0][0], torch::zeros({4}), 0.0)) << dtype;
      EXPECT_TRUE(close(y[0][0][1], torch::ones({4}), 0.0)) << dtype;
    }
  }
}

// Masks are often filled with the lowest value of their dtype. The sum of this value and a score
// may overflow.
TEST(FullyMaskedRowsInHalfDtypes, LowestHalfMaskStaysFinite) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16}) {
    const auto x = torch::full({1, 1, 2, 4}, 8.0, dtype);
    const double lowest = dtype == torch::kHalf ? -65504.0 : -3.3895313892515355e38;
    const auto mask = torch::full({2, 2}, lowest, dtype);
    for (const bool need_weights : {false, true}) {
      const AttentionArgs args{.mask = mask, .need_weights = need_weights};
      const auto y = attend::dot_product_attention(-x, x, x, args).output;
      EXPECT_TRUE(torch::isfinite(y).all().item<bool>()) << dtype << ", weights " << need_weights;
    }
  }
}

}  // namespace
}  // namespace attend
