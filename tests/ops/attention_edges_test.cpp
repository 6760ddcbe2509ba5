// Empty and size-1 dimensions, memory layouts, dtypes.
#include "attend/ops/attention.h"
#include "support/close.h"
#include "support/reference.h"

namespace attend {
namespace {

/// Calls attention without and with `need_weights`, and compares each result to the reference in
/// plain loops. Attention can use the fused kernel only without `need_weights`.
void expect_matches_reference(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v, AttentionArgs args, double tolerance) {
  const auto expected = attention_in_loops(q, k, v, args);
  for (const bool need_weights : {false, true}) {
    args.need_weights = need_weights;
    const auto found = attend::dot_product_attention(q, k, v, args);
    EXPECT_EQ(found.output.scalar_type(), q.scalar_type());
    EXPECT_TRUE(close(found.output, expected.output, tolerance)) << "weights " << need_weights;
    if (need_weights) {
      EXPECT_TRUE(close(found.weights, expected.weights, tolerance));
    }
  }
}

TEST(AttentionSizes, ZeroAndOneWorkInAllCombinations) {
  torch::manual_seed(3);
  for (const int64_t b : {0, 1, 2}) {
    for (const int64_t t : {0, 1, 3}) {
      for (const int64_t s : {0, 1, 3}) {
        for (const bool causal : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << "B " << b << ", T " << t << ", S " << s << ", causal " << causal);
          const auto q = torch::randn({b, 2, t, 4});
          const auto k = torch::randn({b, 2, s, 4});
          const auto v = torch::randn({b, 2, s, 4});
          expect_matches_reference(q, k, v, {.causal = causal}, 1e-6);
          const auto mask = torch::rand({b, 1, 1, s}) > 0.5;
          expect_matches_reference(q, k, v, {.mask = mask, .causal = causal}, 1e-6);
          const auto added = torch::randn({t, s});
          expect_matches_reference(q, k, v, {.mask = added, .causal = causal}, 1e-6);
        }
      }
    }
  }
}

TEST(AttentionSizes, GradientsAreZeroWithoutKeys) {
  for (const bool need_weights : {false, true}) {
    const auto q = torch::randn({2, 2, 3, 4}).requires_grad_();
    const auto k = torch::randn({2, 2, 0, 4}).requires_grad_();
    const auto y = attend::dot_product_attention(q, k, k, {.need_weights = need_weights}).output;
    EXPECT_TRUE(close(y, torch::zeros({2, 2, 3, 4}), 0.0));
    if (!y.requires_grad()) continue;
    y.sum().backward();
    if (q.grad().defined()) {
      EXPECT_TRUE(close(q.grad(), torch::zeros({2, 2, 3, 4}), 0.0));
    }
  }
}

TEST(AttentionDimensions, TwoThreeAndFourDimensionsAreSupported) {
  torch::manual_seed(4);
  const auto q = torch::randn({2, 3, 4, 5});
  const auto k = torch::randn({2, 3, 6, 5});
  const auto v = torch::randn({2, 3, 6, 7});
  for (const bool causal : {false, true}) {
    const AttentionArgs args{.mask = torch::rand({4, 6}) > 0.3, .causal = causal};
    expect_matches_reference(q, k, v, args, 1e-6);
    expect_matches_reference(q[0], k[0], v[0], args, 1e-6);
    expect_matches_reference(q[0][0], k[0][0], v[0][0], args, 1e-6);
    expect_matches_reference(q[0][0], k[0][0], v[0][0], {.causal = causal}, 1e-6);
  }
}

TEST(AttentionLayout, StridedAndExpandedInputsAreSupported) {
  torch::manual_seed(5);
  const auto time_first =
      torch::randn({2, 6, 3, 8}).transpose(1, 2);  // (B, H, T, D) view of (B, T, H, D)
  const auto transposed = torch::randn({2, 3, 8, 6}).transpose(-2, -1);  // last stride is not 1
  const auto expanded_heads = torch::randn({2, 1, 6, 8}).expand({2, 3, 6, 8});
  const auto sliced = torch::randn({2, 3, 12, 8}).slice(2, 0, 12, 2);
  for (const auto& x : {time_first, transposed, expanded_heads, sliced}) {
    for (const bool causal : {false, true}) {
      const AttentionArgs args{.causal = causal};
      expect_matches_reference(x, time_first, sliced, args, 1e-6);
      expect_matches_reference(time_first, x, time_first, args, 1e-6);
      expect_matches_reference(time_first, time_first, x, args, 1e-6);
    }
  }
}

TEST(AttentionLayout, StridedAndExpandedMasksAreSupported) {
  torch::manual_seed(6);
  const auto x = torch::randn({2, 3, 6, 8});
  const auto transposed = (torch::rand({6, 6}) > 0.3).t();
  const auto expanded = (torch::rand({2, 1, 1, 6}) > 0.3).expand({2, 3, 6, 6});
  const auto added = torch::randn({6, 2, 6}).transpose(0, 1).unsqueeze(1);  // (B, 1, T, S)
  for (const auto& mask : {transposed, expanded, added}) {
    expect_matches_reference(x, x, x, {.mask = mask}, 1e-6);
  }
}

struct Precision {
  torch::ScalarType dtype;
  double tolerance;  // about 4 rounding errors of values around 1
};

TEST(AttentionDtype, AllFloatDtypesMatchReference) {
  torch::manual_seed(7);
  for (const auto& [dtype, tolerance] :
       {Precision{torch::kDouble, 1e-14}, Precision{torch::kFloat, 1e-6},
        Precision{torch::kHalf, 4e-3}, Precision{torch::kBFloat16, 3e-2}}) {
    SCOPED_TRACE(toString(dtype));
    const auto q = torch::randn({2, 3, 5, 8}, torch::kDouble).to(dtype);
    const auto k = torch::randn({2, 3, 6, 8}, torch::kDouble).to(dtype);
    const auto v = torch::randn({2, 3, 6, 8}, torch::kDouble).to(dtype);
    const auto allowed = torch::rand({5, 6}) > 0.3;
    expect_matches_reference(q, k, v, {}, tolerance);
    expect_matches_reference(q, k, v, {.causal = true}, tolerance);
    expect_matches_reference(q, k, v, {.mask = allowed}, tolerance);
    // The dtype of a float mask may differ from that of the query.
    const auto added = torch::randint(-2, 3, {5, 6}).to(torch::kFloat);
    expect_matches_reference(q, k, v, {.mask = added}, tolerance);
    expect_matches_reference(q, k, v, {.mask = added, .causal = true}, tolerance);
  }
}

TEST(DotProductAttention, CausalSupportsZeroAndNegativeScale) {
  const auto q = torch::randn({1, 2, 4, 8});
  const auto k = torch::randn({1, 2, 4, 8});
  for (const double scale : {0.0, -0.7}) {
    const auto fused = attend::dot_product_attention(q, k, k, {.causal = true}, {.scale = scale});
    const auto with_weights = attend::dot_product_attention(
        q, k, k, {.causal = true, .need_weights = true}, {.scale = scale});
    EXPECT_TRUE(close(fused.output, with_weights.output, 1e-5)) << scale;
  }
}

TEST(DotProductAttention, OneAndZeroDimensionalMasksBroadcast) {
  const auto q = torch::randn({2, 3, 5, 4});
  const auto keys = torch::tensor({1, 0, 1, 1, 0}, torch::kBool);
  const auto expected = attend::dot_product_attention(q, q, q, {.mask = keys.expand({5, 5})});
  EXPECT_TRUE(
      close(attend::dot_product_attention(q, q, q, {.mask = keys}).output, expected.output, 1e-6));
  const auto all = attend::dot_product_attention(q, q, q, {.mask = torch::tensor(true)});
  EXPECT_TRUE(close(all.output, attend::dot_product_attention(q, q, q).output, 1e-6));
}

TEST(DotProductAttention, NeedWeightsDoesNotReducePrecisionInHalfDtypes) {
  torch::manual_seed(11);
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    const auto q = (torch::randn({2, 4, 32, 64}) * 6).to(dtype);
    const auto k = (torch::randn({2, 4, 32, 64}) * 6).to(dtype);
    const auto v = torch::randn({2, 4, 32, 64}).to(dtype);
    const auto exact = attend::dot_product_attention(q.to(torch::kDouble), k.to(torch::kDouble),
                                                     v.to(torch::kDouble));
    const auto with_weights = attend::dot_product_attention(q, k, v, {.need_weights = true});
    EXPECT_TRUE(close(with_weights.output, exact.output, dtype == torch::kHalf ? 4e-3 : 3e-2))
        << dtype;
  }
}

}  // namespace
}  // namespace attend
