#include "attend/ops/attention.h"
#include "support/close.h"
#include "support/gradient.h"
#include "support/seed.h"
#include "support/trace.h"

#include <limits>
#include <string>
#include <vector>

namespace attend {
namespace {

struct MaskCase {
  const char* name;
  torch::Tensor mask;
  bool causal = false;

  friend std::ostream& operator<<(std::ostream& stream, const MaskCase& self) {
    return stream << self.name;
  }
};

std::vector<MaskCase> mask_cases() {
  const double masked = -std::numeric_limits<double>::infinity();
  const auto keys = torch::tensor({{1, 1, 0, 1}, {0, 0, 1, 1}}).to(torch::kBool);
  const auto allowed = keys.view({2, 1, 1, 4});  // (B, 1, 1, S)
  const auto added = torch::tensor(
      {{0.5, masked, 1.0, 0.0}, {masked, masked, masked, masked}, {0.0, -1.0, 2.0, 0.3}},
      torch::kDouble);
  return {{"Unmasked", {}},
          {"Bool", allowed},
          {"Float", added},
          {"Causal", {}, true},
          {"CausalBool", allowed, true},
          {"CausalFloat", added, true}};
}

using GradientCase = std::tuple<MaskCase, bool>;

struct AttentionGradient : FixedSeed, testing::TestWithParam<GradientCase> {
  AttentionArgs args() const {
    const auto& [mask_case, need_weights] = GetParam();
    return {.mask = mask_case.mask, .causal = mask_case.causal, .need_weights = need_weights};
  }
  static torch::Tensor leaf(at::IntArrayRef sizes) {
    return torch::randn(sizes, torch::kDouble).requires_grad_();
  }
};

INSTANTIATE_TEST_SUITE_P(, AttentionGradient,
                         testing::Combine(testing::ValuesIn(mask_cases()), testing::Bool()),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param).name) +
                                  (std::get<1>(test.param) ? "WithWeights" : "");
                         });

TEST_P(AttentionGradient, MatchesFiniteDifferences) {
  const auto q = leaf({2, 1, 3, 2}), k = leaf({2, 1, 4, 2}), v = leaf({2, 1, 4, 3});
  EXPECT_TRUE(gradients_match([&] { return attend::dot_product_attention(q, k, v, args()).output; },
                              {q, k, v}));
}

TEST_P(AttentionGradient, MatchesFiniteDifferencesForEqualLengths) {
  const auto q = leaf({2, 1, 4, 2}), k = leaf({2, 1, 4, 2}), v = leaf({2, 1, 4, 2});
  auto same_length = args();
  if (same_length.mask.defined() && same_length.mask.size(-2) == 3) {
    same_length.mask = torch::cat({same_length.mask, torch::zeros({1, 4}, torch::kDouble)});
  }
  EXPECT_TRUE(gradients_match(
      [&] { return attend::dot_product_attention(q, k, v, same_length).output; }, {q, k, v}));
}

TEST_P(AttentionGradient, ThroughWeightsMatchesFiniteDifferences) {
  const auto q = leaf({2, 1, 3, 2}), k = leaf({2, 1, 4, 2});
  auto with_weights = args();
  with_weights.need_weights = true;
  EXPECT_TRUE(gradients_match(
      [&] { return attend::dot_product_attention(q, k, k, with_weights).weights; }, {q, k}));
}

TEST(FloatMaskGradient, MatchesFiniteDifferences) {
  torch::manual_seed(9);
  const auto x = torch::randn({2, 1, 3, 2}, torch::kDouble);
  for (const bool causal : {false, true}) {
    for (const bool need_weights : {false, true}) {
      const auto mask = torch::randn({1, 3}, torch::kDouble).requires_grad_();
      const AttentionArgs args{.mask = mask, .causal = causal, .need_weights = need_weights};
      EXPECT_TRUE(gradients_match(
          [&] { return attend::dot_product_attention(x, x, x, args).output; }, {mask}));
    }
  }
}

TEST_P(AttentionGradient, TraceGeneralizesToOtherSizes) {
  const auto run = [this](const Tensors& x) {
    auto with_mask = args();
    // The mask is an input of the trace. A constant mask would fit only the sizes of the example.
    if (with_mask.mask.defined()) with_mask.mask = x[2];
    return attend::dot_product_attention(x[0], x[1], x[1], with_mask).output;
  };
  const auto inputs = [this](int64_t b, int64_t t, int64_t s) -> Tensors {
    const auto allowed = torch::rand({t, s}) > 0.5;
    const bool is_float = args().mask.defined() && args().mask.is_floating_point();
    return {
        torch::randn({b, 2, t, 4}), torch::randn({b, 2, s, 4}),
        is_float ? torch::where(allowed, 0.5, -std::numeric_limits<double>::infinity()) : allowed};
  };
  const auto traced = trace(run, inputs(2, 3, 3));
  for (const auto& other : {inputs(1, 5, 5), inputs(3, 2, 6), inputs(2, 4, 2), inputs(1, 1, 1)}) {
    EXPECT_TRUE(close(traced(other), run(other), 1e-6)) << other[0].sizes() << other[1].sizes();
  }
}

}  // namespace
}  // namespace attend
