#include "attend/nn/norms.h"

#include "support/close.h"
#include "support/gradient.h"
#include "support/modules.h"
#include "support/rounding.h"
#include "support/seed.h"
#include "support/throws.h"
#include "support/trace.h"

#include <cmath>
#include <functional>

namespace attend {
namespace {

using Row = std::vector<double>;

/// Applies `formula` to each row of `x` (T, width).
torch::Tensor row_by_row(const torch::Tensor& x, const std::function<Row(const Row&)>& formula) {
  auto y = torch::empty_like(x);
  for (int64_t t = 0; t < x.size(0); ++t) {
    Row row;
    for (int64_t i = 0; i < x.size(1); ++i) row.push_back(x[t][i].item<double>());
    y[t] = torch::tensor(formula(row), torch::kDouble);
  }
  return y;
}

double mean_of(const Row& row, const std::function<double(double)>& term) {
  double sum = 0.0;
  for (const double value : row) sum += term(value);
  return sum / static_cast<double>(row.size());
}

/// Converts the module to float64 and adds noise to its parameters, since equal initial weights
/// would hide errors.
void randomize(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  module.to(torch::kDouble);
  for (auto& parameter : module.parameters()) parameter.add_(torch::randn_like(parameter));
}

TEST(LayerNorm, MatchesFormulaInRandomCases) {
  seed_afresh();
  for (const bool bias : {true, false}) {
    const int64_t width = draw(1, 6);
    LayerNorm norm(LayerNormOptions(width).eps(0.01).bias(bias));
    randomize(*norm);
    const auto x = torch::randn({draw(1, 4), width}, torch::kDouble);
    const auto formula = [&] {
      const auto normalized = row_by_row(x, [](Row row) {
        const double mean = mean_of(row, [](double v) { return v; });
        const double variance = mean_of(row, [&](double v) { return (v - mean) * (v - mean); });
        for (double& value : row) value = (value - mean) / std::sqrt(variance + 0.01);
        return row;
      });
      return normalized * norm->weight + (bias ? norm->bias : torch::zeros({1}));
    };
    EXPECT_TRUE(within_rounding(norm(x), leaves_of(*norm, {x}), formula)) << "bias " << bias;
  }
}

TEST(RMSNorm, MatchesFormulaInRandomCases) {
  seed_afresh();
  const double float64_epsilon = std::numeric_limits<double>::epsilon();
  for (const auto& eps : {std::optional<double>(), std::optional<double>(0.01)}) {
    const int64_t width = draw(1, 6);
    RMSNorm norm(RMSNormOptions(width).eps(eps));
    randomize(*norm);
    const auto x = torch::randn({draw(1, 4), width}, torch::kDouble);
    const auto formula = [&] {
      const auto normalized = row_by_row(x, [&](Row row) {
        const double mean_square = mean_of(row, [](double v) { return v * v; });
        const double root = std::sqrt(mean_square + eps.value_or(float64_epsilon));
        for (double& value : row) value /= root;
        return row;
      });
      return normalized * norm->weight;
    };
    EXPECT_TRUE(within_rounding(norm(x), leaves_of(*norm, {x}), formula));
  }
}

TEST(RMSNorm, RoundsOnceIfTheWeightHasAWiderDtype) {
  RMSNorm norm(RMSNormOptions(64).eps(1e-6));
  const torch::NoGradGuard no_grad;
  norm->weight.normal_(1.0, 0.1);
  const auto x = torch::randn({8, 64}).to(torch::kBFloat16);
  const auto y = norm(x);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(y.equal(norm(x.to(torch::kFloat)).to(torch::kBFloat16)));
  norm->to(torch::kBFloat16);
  EXPECT_FALSE(norm(x).equal(y));
}

TEST(RMSNorm, Bfloat16EqualsRoundedFloat32) {
  RMSNorm norm(RMSNormOptions(64));
  const auto x = 100 * torch::randn({5, 64}).to(torch::kBFloat16);
  const auto expected = norm(x.to(torch::kFloat));
  norm->to(torch::kBFloat16);
  const auto y = norm(x);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(close(y / expected, torch::ones({5, 64}), 1.0 / 128));
  EXPECT_TRUE(close(norm(torch::zeros_like(x)), torch::zeros({5, 64}), 0.0));
}

/// Compares a norm of float32 rows, also of few rows without gradients, with the norm in float64.
template <typename Norm>
void expect_equal_to_double(Norm norm, const torch::Tensor& x) {
  const auto compute = [](auto& exact, const Tensors& in) { return exact(in[0]); };
  // A mean that is much larger than the deviations from it cancels out, with its rounding error.
  const auto deviation = (x.var(-1, /*unbiased=*/false, /*keepdim=*/true) + 1e-6).sqrt();
  const auto terms = (x / deviation * norm->weight).detach().abs();
  const auto largest_term = terms.numel() == 0 ? 0.0 : terms.max().template item<double>();
  const Rounding rounding = {.terms = x.size(-1), .largest_term = largest_term};
  EXPECT_TRUE(equals_in_float64(norm(x), norm, {x}, compute, rounding))
      << x.sizes() << ", strides " << x.strides();
  const torch::NoGradGuard no_grad;
  const auto y = norm(x);
  EXPECT_EQ(y.scalar_type(), torch::kFloat);
  EXPECT_TRUE(equals_in_float64(y, norm, {x}, compute, rounding))
      << x.sizes() << ", strides " << x.strides();
}

TEST(NormModules, FewRowsInFloat32EqualFloat64) {
  seed_afresh();
  for (int i = 0; i < 60; ++i) {
    const auto width = draw(2, 150);
    const bool bias = draw(0, 1) == 1;
    LayerNorm layer_norm(LayerNormOptions(width).bias(bias));
    RMSNorm rms_norm(RMSNormOptions(width).eps(1e-6));  // the default depends on the dtype
    {
      const torch::NoGradGuard no_grad;
      layer_norm->weight.normal_();
      if (bias) layer_norm->bias.normal_();
      rms_norm->weight.normal_();
    }
    auto x = torch::randn({draw(0, 3), draw(1, 4), width}) + 1;
    if (draw(0, 2) == 0) x = torch::randn({width, draw(1, 9)}).t() + 1;
    expect_equal_to_double(layer_norm, x);
    expect_equal_to_double(rms_norm, x);
  }
}

TEST(NormModules, RowsWithNanGiveNan) {
  const torch::NoGradGuard no_grad;
  LayerNorm layer_norm(40);
  RMSNorm rms_norm(40);
  for (const auto k : {0, 39}) {
    auto x = torch::randn({3, 40});
    x[1][k] = std::nanf("");
    for (const auto& y : {layer_norm(x), rms_norm(x)}) {
      EXPECT_TRUE(y[1].isnan().all().item<bool>());
      EXPECT_FALSE(y.slice(0, 0, 3, 2).isnan().any().item<bool>());
    }
  }
}

TEST(L2Norm, OutputHasTheLearnedNorm) {
  L2Norm norm(16);
  const auto x = torch::randn({2, 3, 16});
  EXPECT_TRUE(close(norm(x).norm(2, -1), torch::full({2, 3}, 4.0), 1e-5));
  EXPECT_TRUE(close(torch::cosine_similarity(norm(x), x, -1), torch::ones({2, 3}), 1e-5));
  torch::NoGradGuard no_grad;
  norm->scale.fill_(3.0);
  EXPECT_TRUE(close(norm(x).norm(2, -1), torch::full({2, 3}, 3.0), 1e-5));
}

TEST(L2Norm, ZerosStayZeroInAllDtypes) {
  for (const auto dtype : {torch::kDouble, torch::kFloat, torch::kBFloat16, torch::kHalf}) {
    L2Norm norm(4);
    norm->to(dtype);
    const auto y = norm(torch::zeros({2, 4}, dtype));
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_TRUE(close(y, torch::zeros({2, 4}), 0.0)) << dtype;
  }
}

struct Norms : FixedSeed, testing::Test {
  static std::vector<ModuleFactory> factories() {
    return {layer_norm(), layer_norm(1e-3, /*bias=*/false), rms_norm(), rms_norm(1e-3), l2_norm()};
  }
};

TEST_F(Norms, GradientsEqualFiniteDifferences) {
  for (const auto& make : factories()) {
    auto norm = make(4);
    randomize(*norm.ptr());
    auto leaves = norm.ptr()->parameters();
    leaves.push_back(torch::randn({2, 3, 4}, torch::kDouble).requires_grad_());
    EXPECT_TRUE(gradients_match([&] { return norm.forward(leaves.back()); }, leaves))
        << norm.ptr()->name();
  }
}

TEST_F(Norms, PreserveShapeAndDtype) {
  for (const auto dtype : {torch::kDouble, torch::kBFloat16, torch::kHalf}) {
    for (const auto& make : factories()) {
      auto norm = make(8);
      norm.ptr()->to(dtype);
      for (const auto& x : {torch::randn({2, 3, 8}), torch::randn({0, 3, 8}), torch::randn({3, 8}),
                            torch::randn({1, 8}).expand({3, 8}), torch::randn({8, 3}).t(),
                            torch::randn({2, 4, 3, 8})}) {
        const auto y = norm.forward(x.to(dtype));
        EXPECT_EQ(y.scalar_type(), dtype);
        EXPECT_EQ(y.sizes(), x.sizes()) << norm.ptr()->name();
      }
    }
  }
}

TEST_F(Norms, TraceGeneralizesToOtherSizes) {
  for (const auto& make : factories()) {
    auto norm = make(8);
    freeze(*norm.ptr());
    const auto run = [&](const Tensors& x) -> torch::Tensor { return norm.forward(x[0]); };
    const auto traced = trace(run, {torch::randn({2, 3, 8})});
    const auto x = torch::randn({1, 5, 8});
    EXPECT_TRUE(close(traced({x}), run({x}), 1e-6)) << norm.ptr()->name();
  }
}

TEST_F(Norms, CloneAndSaveLoadRoundTrip) {
  const auto x = torch::randn({3, 8});
  const auto check = [&](auto module, auto fresh) {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : fresh->parameters()) parameter.add_(1.0);
    expect_clone_and_save_load_work(module, fresh, [&](auto norm) { return norm(x); });
  };
  check(LayerNorm(8), LayerNorm(8));
  check(RMSNorm(8), RMSNorm(8));
  check(L2Norm(8), L2Norm(8));
}

TEST(NormModules, StateDictKeysAndPrettyPrint) {
  EXPECT_THAT(state_names(*LayerNorm(8)), testing::ElementsAre("weight", "bias"));
  EXPECT_THAT(state_names(*LayerNorm(LayerNormOptions(8).bias(false))),
              testing::ElementsAre("weight"));
  EXPECT_THAT(state_names(*RMSNorm(8)), testing::ElementsAre("weight"));
  EXPECT_THAT(state_names(*L2Norm(8)), testing::ElementsAre("scale"));
  EXPECT_EQ(printed(*LayerNorm(8)), "attend::LayerNorm(width=8, eps=1e-05, bias=true)");
  EXPECT_EQ(printed(*RMSNorm(RMSNormOptions(8).eps(0.5))), "attend::RMSNorm(width=8, eps=0.5)");
  EXPECT_EQ(printed(*RMSNorm(8)), "attend::RMSNorm(width=8, eps=dtype epsilon)");
  EXPECT_EQ(printed(*L2Norm(8)), "attend::L2Norm(width=8)");
}

TEST(NormErrors, InvalidShapesAndOptionsThrow) {
  const auto x = torch::zeros({2, 7});
  EXPECT_THAT([&] { LayerNorm(8)->forward(x); },
              throws<c10::ValueError>("LayerNorm expects (..., width) with width 8, found [2, 7]"));
  EXPECT_THAT([&] { RMSNorm(8)->forward(x); }, throws<c10::ValueError>("found [2, 7]"));
  EXPECT_THAT([&] { L2Norm(8)->forward(x); }, throws<c10::ValueError>("found [2, 7]"));
  EXPECT_THAT([] { RMSNorm(0); }, throws<c10::ValueError>("width (0) must be positive"));
  EXPECT_THAT([] { LayerNorm(LayerNormOptions(8).eps(INFINITY)); },
              throws<c10::ValueError>("eps (inf) must be finite"));
  EXPECT_THAT([] { RMSNorm(RMSNormOptions(8).eps(INFINITY)); },
              throws<c10::ValueError>("eps (inf) must be finite"));
  EXPECT_THAT([] { LayerNorm(LayerNormOptions(8).eps(-1)); },
              throws<c10::ValueError>("eps (-1) must not be negative"));
}

}  // namespace
}  // namespace attend
