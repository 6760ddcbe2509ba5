// A query that may attend to nothing gives zeros and zero gradients, and disturbs no other query.
#include "attend/ops/attention.h"
#include "support/close.h"
#include "support/seed.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace attend {
namespace {

constexpr double kDead = -std::numeric_limits<double>::infinity();

struct DeadRowCase {
  const char* name;
  torch::Tensor mask;
  bool causal;
  int64_t queries;
  int64_t keys;
  std::vector<int64_t> dead;

  friend std::ostream& operator<<(std::ostream& stream, const DeadRowCase& self) {
    return stream << self.name;
  }
};

std::vector<DeadRowCase> dead_row_cases() {
  const auto allowed = torch::tensor({{1, 0, 1}, {0, 0, 0}, {1, 1, 1}}).to(torch::kBool);
  const auto added = torch::tensor({{0.5, kDead, 1.0}, {kDead, kDead, kDead}, {0.0, -1.0, 2.0}});
  const auto not_first = torch::tensor({false, true, true});
  return {
      {"Bool", allowed, false, 3, 3, {1}},
      {"Float", added, false, 3, 3, {1}},
      {"BoolEverything", torch::zeros({3, 3}, torch::kBool), false, 3, 3, {0, 1, 2}},
      {"FloatEverything", torch::full({3, 3}, kDead), false, 3, 3, {0, 1, 2}},
      {"CausalWithFewerKeys", {}, true, 4, 2, {0, 1}},
      {"CausalWithFewerKeysAndBool", torch::tensor({false, true}), true, 4, 2, {0, 1, 2}},
      {"CausalAndBool", not_first, true, 3, 3, {0}},
      {"CausalAndFloat", torch::where(not_first, 0.5, kDead), true, 3, 3, {0}},
      {"BoolColumn", torch::tensor({{true}, {false}, {true}}), false, 3, 3, {1}},
  };
}

struct DeadRows : FixedSeed, testing::TestWithParam<std::tuple<DeadRowCase, bool>> {
  DeadRows() {
    q = torch::randn({2, 2, kase.queries, 4}).requires_grad_();
    k = torch::randn({2, 2, kase.keys, 4}).requires_grad_();
    v = torch::randn({2, 2, kase.keys, 5}).requires_grad_();
    for (int64_t t = 0; t < kase.queries; ++t) {
      const bool is_dead = std::count(kase.dead.begin(), kase.dead.end(), t) > 0;
      (is_dead ? dead : alive).push_back(t);
    }
  }

  AttentionOutput attend() const {
    return attend::dot_product_attention(
        q, k, v,
        {.mask = kase.mask, .causal = kase.causal, .need_weights = std::get<1>(GetParam())});
  }
  static torch::Tensor rows(const torch::Tensor& x, const std::vector<int64_t>& which) {
    return x.index_select(-2, torch::tensor(which, torch::kLong));
  }

  const DeadRowCase kase = std::get<0>(GetParam());
  torch::Tensor q, k, v;
  std::vector<int64_t> dead, alive;
};

INSTANTIATE_TEST_SUITE_P(, DeadRows,
                         testing::Combine(testing::ValuesIn(dead_row_cases()), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) ? "WithWeights" : "");
                         });

TEST_P(DeadRows, GiveZeros) {
  const auto [output, weights] = attend();
  const auto zeros = rows(output, dead);
  EXPECT_TRUE(close(zeros, torch::zeros_like(zeros), 0.0));
  EXPECT_TRUE(torch::isfinite(output).all().item<bool>());
  EXPECT_TRUE((rows(output, alive) != 0).all().item<bool>());
  if (!weights.defined()) return;
  EXPECT_TRUE(close(rows(weights, dead).sum(-1), torch::zeros_like(zeros.select(-1, 0)), 0.0));
  const auto sums = rows(weights, alive).sum(-1);
  EXPECT_TRUE(close(sums, torch::ones_like(sums), 1e-6));
}

TEST_P(DeadRows, GiveZeroGradientsAndLeaveTheOthersAlone) {
  const auto cotangent = torch::randn({2, 2, kase.queries, 5});
  (attend().output * cotangent).sum().backward();
  const auto of_dead = rows(q.grad(), dead);
  EXPECT_TRUE(close(of_dead, torch::zeros_like(of_dead), 0.0));
  const auto key_gradient = k.grad().clone();
  const auto value_gradient = v.grad().clone();
  EXPECT_TRUE(torch::isfinite(q.grad()).all().item<bool>());

  // What keys and values receive is what the living queries alone would send them.
  k.mutable_grad().reset();
  v.mutable_grad().reset();
  (rows(attend().output, alive) * rows(cotangent, alive)).sum().backward();
  EXPECT_TRUE(close(key_gradient, k.grad(), 1e-6));
  EXPECT_TRUE(close(value_gradient, v.grad(), 1e-6));
}

TEST_P(DeadRows, OfWeightsGiveZeroGradients) {
  const auto weights = attend().weights;
  if (!weights.defined()) return;
  (weights * torch::randn_like(weights)).sum().backward();
  const auto of_dead = rows(q.grad(), dead);
  EXPECT_TRUE(close(of_dead, torch::zeros_like(of_dead), 0.0));
  EXPECT_TRUE(torch::isfinite(q.grad()).all().item<bool>());
  EXPECT_TRUE(torch::isfinite(k.grad()).all().item<bool>());
}

TEST(DeadRowsOfALearnedMask, GiveItZeroGradients) {
  torch::manual_seed(3);
  const auto x = torch::randn({1, 1, 2, 4});
  for (const bool need_weights : {false, true}) {
    auto mask = torch::tensor({{kDead, kDead}, {0.5, -0.5}}).requires_grad_();
    const AttentionArgs args{.mask = mask, .need_weights = need_weights};
    (attend::dot_product_attention(x, x, x, args).output * torch::randn({2, 4})).sum().backward();
    EXPECT_TRUE(close(mask.grad()[0], torch::zeros({2}), 0.0));
    EXPECT_TRUE((mask.grad()[1] != 0).all().item<bool>());
  }
}

// The least float32 is -infinity in the narrower types: a mask filled with it forbids all there.
TEST(DeadRowsInLowPrecision, GiveZerosForMasksThatOverflowToMinusInfinity) {
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

// Masks are often filled with the least number of their dtype, to which a score may still add.
TEST(DeadRowsInLowPrecision, AreNoNumbersLessWhereScoreAndMaskOverflowTogether) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16}) {
    const auto x = torch::full({1, 1, 2, 4}, 8.0, dtype);
    const double least = dtype == torch::kHalf ? -65504.0 : -3.3895313892515355e38;
    const auto mask = torch::full({2, 2}, least, dtype);
    for (const bool need_weights : {false, true}) {
      const AttentionArgs args{.mask = mask, .need_weights = need_weights};
      const auto y = attend::dot_product_attention(-x, x, x, args).output;
      EXPECT_TRUE(torch::isfinite(y).all().item<bool>()) << dtype << ", weights " << need_weights;
    }
  }
}

}  // namespace
}  // namespace attend
