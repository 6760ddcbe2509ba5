#include "attend/ops/linear.h"

#include "attend/ops/fast_kernels.h"
#include "attend/ops/flop_counter.h"
#include "ops/autocast.h"
#include "support/close.h"
#include "support/kernels.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <ATen/Context.h>
#include <ATen/ops/_make_dual.h>
#include <ATen/ops/_unpack_dual.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <tuple>

namespace attend {
namespace {

bool calls(const std::set<std::string>& names, const char* name) {
  return names.count(name) == 1;
}

torch::Tensor plain(const torch::Tensor& x, const torch::Tensor& weight,
                    const torch::Tensor& bias = {}) {
  return torch::linear(x, weight, bias);
}

/// Norm of the difference, divided by the norm of `expected`.
double relative_error(const torch::Tensor& actual, const torch::Tensor& expected) {
  return ((actual - expected).norm() / expected.norm()).item<double>();
}

struct LinearTest : FixedSeed, testing::Test {
  const torch::NoGradGuard no_grad;
  torch::Tensor x = torch::randn({2, 3, 480});
  torch::Tensor weight = torch::randn({300, 480});
  torch::Tensor bias = torch::randn({300});
};

TEST(Linear, EqualsTorchLinearForRandomShapesAndLayouts) {
  const torch::NoGradGuard no_grad;
  seed_afresh();
  for (int i = 0; i < 60; ++i) {
    // Half of the weights are so large that oneDNN may be used.
    const bool is_large = draw(0, 1) == 1;
    const auto in = is_large ? draw(363, 500) : draw(0, 400);
    const auto out = is_large ? draw(363, 500) : draw(0, 400);
    std::vector<int64_t> shape;
    for (auto dims = draw(0, 2); dims > 0; --dims) shape.push_back(draw(0, 5));
    shape.push_back(in);
    auto x = torch::randn(shape);
    if (shape.size() > 1 && draw(0, 1) == 1) {  // strided
      x = torch::randn({in + 3, shape[0] * 2}).t().slice(0, 0, -1, 2).slice(1, 1, in + 1);
    }
    auto weight = torch::randn({out, in});
    switch (draw(0, 2)) {
      case 0:
        weight = torch::randn({in, out}).t();
        break;
      case 1:
        weight = torch::randn({out + 5, in + 2}).slice(0, 2, out + 2).slice(1, 0, in);
        break;
    }
    const std::vector<torch::Tensor> biases{{},
                                            torch::randn({out}),
                                            torch::randn({2 * out}).slice(0, 0, 2 * out, 2),
                                            torch::randn({1}).expand({out})};
    const auto& bias = biases.at(static_cast<std::size_t>(draw(0, 3)));
    SCOPED_TRACE(testing::Message() << "x " << x.sizes() << " strides " << x.strides() << " weight "
                                    << weight.sizes() << " strides " << weight.strides());
    EXPECT_TRUE(
        equals_in_float64(apply_linear(x, weight, bias), {x, weight, bias},
                          [](const Tensors& exact) { return plain(exact[0], exact[1], exact[2]); },
                          {.terms = in + 1}));
  }
}

TEST_F(LinearTest, ComputesGradientsWithTorchLinear) {
  const torch::AutoGradMode with_grad(true);
  const auto leaf = weight.clone().requires_grad_();
  const auto names = operators_of([&] { apply_linear(x, leaf, bias).sum().backward(); });
  EXPECT_TRUE(calls(names, "aten::linear"));
  EXPECT_TRUE(close(leaf.grad(), x.sum(at::IntArrayRef{0, 1}).expand_as(weight), 1e-4));
}

TEST_F(LinearTest, TracesOnlyTorchLinear) {
  prepare_weight(weight, WeightFormat::int8);
  const auto run = [&](torch::jit::Stack inputs) {
    return torch::jit::Stack{apply_linear(inputs[0].toTensor(), weight, bias)};
  };
  const auto name = [](const torch::Tensor& /*value*/) { return std::string(); };
  const auto [state, outputs] = torch::jit::tracer::trace({x}, run, name);
  EXPECT_FALSE(calls(operators_of([&] { torch::jit::tracer::trace({x}, run, name); }),
                     "attend::int8_product"));
  const auto graph = state->graph->toString();
  EXPECT_NE(graph.find("aten::linear"), std::string::npos) << graph;
  EXPECT_EQ(graph.find("mkldnn::"), std::string::npos) << graph;
}

TEST_F(LinearTest, IsCastByAutocast) {
  prepare_weight(weight, WeightFormat::packed);
  const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
  const auto y = apply_linear(x, weight, bias);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(torch::equal(y, plain(x, weight, bias)));
}

TEST_F(LinearTest, KeepsForwardDerivatives) {
  prepare_weight(weight, WeightFormat::int8);
  const auto tangent = torch::randn_like(x);
  const auto level = torch::autograd::ForwardADLevel::get_next_idx();
  const auto y = apply_linear(at::_make_dual(x, tangent, level), weight, bias);
  const auto derivative = std::get<1>(at::_unpack_dual(y, level));
  torch::autograd::ForwardADLevel::release_idx(level);
  EXPECT_TRUE(close(derivative, plain(tangent, weight), 1e-4));
}

TEST_F(LinearTest, RaisesTheErrorsOfTorchLinear) {
  EXPECT_THROW(apply_linear(torch::randn({2, 479}), weight, bias), c10::Error);
  EXPECT_THROW(apply_linear(x, weight, torch::randn({299})), c10::Error);
  EXPECT_THROW(apply_linear(x.to(torch::kDouble), weight, bias), c10::Error);
}

struct FormatCase {
  WeightFormat format;
  double tolerance;  // relative error, for normally distributed weights and inputs
  const char* name;  // of the operator that computes the product
};

struct PreparedWeightTest : LinearTest, testing::WithParamInterface<FormatCase> {};

TEST_P(PreparedWeightTest, IsCloseToTheProductWithTheWeight) {
  const auto expected = plain(x, weight, bias);
  prepare_weight(weight, GetParam().format);
  const auto y = apply_linear(x, weight, bias);
  EXPECT_EQ(y.scalar_type(), torch::kFloat);
  EXPECT_EQ(y.sizes(), expected.sizes());
  EXPECT_LE(relative_error(y, expected), GetParam().tolerance);
  EXPECT_LE(relative_error(apply_linear(x, weight), plain(x, weight)), GetParam().tolerance);
  EXPECT_LE(relative_error(apply_linear(x[0][0], weight), plain(x[0][0], weight)),
            GetParam().tolerance);
}

TEST_P(PreparedWeightTest, SupportsAnyNumberOfRowsAndStrides) {
  prepare_weight(weight, GetParam().format);
  for (const int64_t rows : {0, 1, 2, 7, 8, 9, 16, 17, 100}) {
    SCOPED_TRACE(rows);
    const auto strided = torch::randn({480, 2 * rows}).t().slice(0, 0, 2 * rows, 2);  // (rows, 480)
    const auto y = apply_linear(strided, weight, bias);
    EXPECT_EQ(y.sizes(), (std::vector<int64_t>{rows, 300}));
    if (rows == 0) continue;
    EXPECT_LE(relative_error(y, plain(strided, weight, bias)), GetParam().tolerance);
  }
}

TEST_P(PreparedWeightTest, UsesTheOperatorOfTheFormat) {
  if (!prepare_weight(weight, GetParam().format)) {
    GTEST_SKIP() << "this processor or this LibTorch does not support the format";
  }
  const auto names = operators_of([&] { apply_linear(x, weight, bias); });
  EXPECT_TRUE(calls(names, GetParam().name));
  EXPECT_FALSE(calls(names, "aten::linear"));
}

TEST_P(PreparedWeightTest, IsCountedAsTheSameFlops) {
  const auto flops = [&] {
    const FlopCounter counter;
    apply_linear(x, weight);
    return counter.flops();
  };
  const auto before = flops();
  prepare_weight(weight, GetParam().format);
  EXPECT_EQ(flops(), before);
}

INSTANTIATE_TEST_SUITE_P(
    Formats, PreparedWeightTest,
    testing::Values(FormatCase{WeightFormat::packed, 1e-5, "mkldnn::_linear_pointwise"},
                    FormatCase{WeightFormat::bf16, 0.01, "mkldnn::_linear_pointwise"},
                    FormatCase{WeightFormat::int8, 0.015, "attend::int8_product"},
                    FormatCase{WeightFormat::int4, 0.11, "attend::int4_product"}),
    [](const auto& each) { return std::string(to_string(each.param.format)); });

/// A weight with an int8 copy. A product is computed by another operator if the copy is used.
struct CopiedWeightTest : LinearTest {
  void SetUp() override {
    if (!fast_kernels_are_enabled()) GTEST_SKIP() << "ATTEND_FAST is 0";
    ASSERT_TRUE(prepare_weight(weight, WeightFormat::int8));
    ASSERT_TRUE(uses_copy());
  }
  bool uses_copy() {
    return calls(operators_of([&] { apply_linear(x, weight, bias); }), "attend::int8_product");
  }
};

TEST_F(CopiedWeightTest, IsTheWeightRoundedToMultiplesOfAScale) {
  const auto scale = weight.abs().amax(1, /*keepdim=*/true) / 127;
  const auto rounded = (weight / scale).round() * scale;
  EXPECT_LE(relative_error(apply_linear(x, weight), plain(x, rounded)), 1e-4);
}

TEST_F(CopiedWeightTest, IsNotUsedForManyRows) {
  x = torch::randn({9, 480});
  EXPECT_FALSE(uses_copy());
}

TEST_F(CopiedWeightTest, IsNotUsedAfterTheWeightHasChangedInPlace) {
  weight.add_(1);
  EXPECT_FALSE(uses_copy());
  EXPECT_TRUE(close(apply_linear(x, weight, bias), plain(x, weight, bias), 1e-3));
}

TEST_F(CopiedWeightTest, IsNotUsedAfterTheWeightHasMoved) {
  weight.set_data(weight.clone());
  EXPECT_FALSE(uses_copy());
}

/// These writes do not change the version of the weight.
TEST_F(CopiedWeightTest, IsNotUsedAfterWritesToAllElementsThatLibTorchDoesNotCount) {
  const std::function<void()> writes[] = {
      [&] { weight.data().mul_(1.5); },
      [&] { weight.data().lerp_(torch::randn_like(weight), 1e-3); },
      [&] { std::fill_n(weight.data_ptr<float>(), weight.numel(), 0.0F); },
      [&] { weight.detach().data().copy_(weight.flip(0)); }};
  for (const auto& write : writes) {
    weight = torch::randn({300, 480});
    ASSERT_TRUE(prepare_weight(weight, WeightFormat::int8));
    ASSERT_TRUE(uses_copy());
    write();
    EXPECT_FALSE(uses_copy());
    EXPECT_TRUE(close(apply_linear(x, weight, bias), plain(x, weight, bias), 1e-3));
  }
}

TEST_F(CopiedWeightTest, IsNotUsedAfterASparseWeightIsScaled) {
  for (const auto& strided : {torch::randn({300, 480}), torch::randn({480, 300}).t()}) {
    weight = strided * torch::rand({300, 480}).gt(0.999);
    ASSERT_TRUE(prepare_weight(weight, WeightFormat::int8));
    ASSERT_TRUE(uses_copy());
    weight.data().mul_(1.5);
    EXPECT_FALSE(uses_copy());
  }
}

TEST_F(CopiedWeightTest, IsNotUsedAgainAfterAChangeIsUndone) {
  weight.data().mul_(2);
  EXPECT_FALSE(uses_copy());
  weight.data().div_(2);
  EXPECT_FALSE(uses_copy());
}

TEST_F(CopiedWeightTest, IsNotUsedAfterATrainingStepThatDoesNotChangeTheVersion) {
  weight.requires_grad_();
  {
    const torch::AutoGradMode with_grad(true);
    apply_linear(x, weight, bias).sum().backward();
    weight.data().sub_(weight.grad());  // as torch::optim::SGD
  }
  EXPECT_FALSE(uses_copy());
}

TEST_F(CopiedWeightTest, IsNotUsedAfterAForwardPassWithGradientsThroughASlice) {
  weight.requires_grad_();
  {
    const torch::AutoGradMode with_grad(true);
    apply_linear(x, weight.slice(0, 0, 100));
  }
  EXPECT_FALSE(uses_copy());
}

TEST_F(CopiedWeightTest, IsDeletedIfTheWeightIsNoLongerSupported) {
  weight.resize_({273, 480});
  EXPECT_FALSE(prepare_weight(weight, WeightFormat::int8));
  EXPECT_EQ(weight.unsafeGetTensorImpl()->get_backend_meta(), nullptr);
}

TEST_F(CopiedWeightTest, IsNotUsedForGradients) {
  const torch::AutoGradMode with_grad(true);
  x.requires_grad_();
  EXPECT_FALSE(uses_copy());
}

TEST_F(CopiedWeightTest, IsNotUsedForTensorsThatShareTheWeight) {
  const auto whole = weight;
  for (const auto& shared : {whole.detach(), whole.data(), whole.view({300, 480})}) {
    weight = shared;
    EXPECT_FALSE(uses_copy());
  }
}

TEST_F(CopiedWeightTest, IsNotUsedWithoutInferenceKernels) {
  {
    const NoInferenceKernelsGuard guard;
    EXPECT_FALSE(uses_copy());
  }
  EXPECT_TRUE(uses_copy());
}

TEST_F(CopiedWeightTest, AddsABiasWithAnyStrides) {
  for (const auto& strided :
       {torch::randn({600}).slice(0, 0, 600, 2), torch::randn({1}).expand(300)}) {
    for (const auto format : {WeightFormat::packed, WeightFormat::bf16, WeightFormat::int8}) {
      prepare_weight(weight, format);
      EXPECT_LE(relative_error(apply_linear(x, weight, strided), plain(x, weight, strided)), 0.02);
    }
  }
}

TEST_F(CopiedWeightTest, IsNotUsedForACloneOfTheWeight) {
  weight = weight.clone();
  EXPECT_FALSE(uses_copy());
}

TEST_F(CopiedWeightTest, IsReplacedByANewCopy) {
  weight.mul_(3);
  prepare_weight(weight, WeightFormat::int8);
  EXPECT_TRUE(uses_copy());
  EXPECT_LE(relative_error(apply_linear(x, weight), plain(x, weight)), 0.015);
}

TEST_F(LinearTest, PrepareWeightIgnoresWeightsThatItDoesNotSupport) {
  const std::vector<torch::Tensor> weights{torch::randn({100, 480}),                  // small
                                           torch::randn({300, 480}, torch::kDouble),  // dtype
                                           torch::randn({3, 300, 480}),               // dimensions
                                           torch::randn({0, 480}),
                                           torch::randn({480, 300}).t().slice(0, 28)};
  for (const auto& each : weights) {
    for (const auto format : {WeightFormat::int8, WeightFormat::int4}) {
      EXPECT_FALSE(prepare_weight(each, format));
      EXPECT_EQ(each.unsafeGetTensorImpl()->get_backend_meta(), nullptr) << each.sizes();
    }
  }
}

TEST_F(LinearTest, CopiesWeightsOfAnyShapeAndStrides) {
  if (!fast_kernels_are_enabled()) GTEST_SKIP() << "ATTEND_FAST is 0";
  for (const auto& each : {torch::randn({301, 479}), torch::randn({479, 301}).t(),
                           torch::randn({301, 481}).slice(1, 1, 480)}) {
    const auto input = torch::randn({2, each.size(1)});
    for (const auto& [format, name, error] :
         {std::tuple(WeightFormat::int8, "attend::int8_product", 0.015),
          std::tuple(WeightFormat::int4, "attend::int4_product", 0.11)}) {
      ASSERT_TRUE(prepare_weight(each, format));
      torch::Tensor y;
      EXPECT_TRUE(calls(operators_of([&] { y = apply_linear(input, each); }), name));
      EXPECT_LE(relative_error(y, plain(input, each)), error);
    }
  }
}

TEST_F(LinearTest, UsesItsOwnKernelForFewContiguousRows) {
  const auto uses_kernel = [](const torch::Tensor& input, const torch::Tensor& matrix) {
    return calls(operators_of([&] { apply_linear(input, matrix); }), "attend::float_product");
  };
  if (!fast_kernels_are_enabled()) GTEST_SKIP() << "ATTEND_FAST is 0";
  EXPECT_TRUE(uses_kernel(x, weight));
  EXPECT_TRUE(uses_kernel(torch::randn({8, 480}), weight));
  EXPECT_TRUE(uses_kernel(x, torch::randn({300, 490}).slice(1, 0, 480)));
  EXPECT_FALSE(uses_kernel(torch::randn({9, 480}), weight));
  EXPECT_FALSE(uses_kernel(x, torch::randn({480, 300}).t()));
  EXPECT_FALSE(uses_kernel(x.to(torch::kBFloat16), weight.to(torch::kBFloat16)));
  const torch::AutoGradMode with_grad(true);
  EXPECT_FALSE(uses_kernel(x, weight.clone().requires_grad_()));
}

TEST_F(LinearTest, PrepareWeightIgnoresWeightsOfInferenceMode) {
  const c10::InferenceMode inference;
  EXPECT_FALSE(prepare_weight(torch::randn({300, 480}), WeightFormat::int8));
}

TEST_F(LinearTest, SupportsWeightsThatOverlap) {
  const auto overlapping = torch::randn({300 + 480}).as_strided({300, 480}, {1, 1});
  EXPECT_TRUE(close(apply_linear(x, overlapping), plain(x, overlapping), 1e-3));
}

TEST_F(LinearTest, CopiesRowsOfZeros) {
  weight[3].zero_();
  for (const auto format : {WeightFormat::int8, WeightFormat::int4}) {
    prepare_weight(weight, format);
    const auto y = apply_linear(x, weight);
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    EXPECT_TRUE(close(y.select(-1, 3), torch::zeros({2, 3}), 1e-5));
  }
}

}  // namespace
}  // namespace attend
