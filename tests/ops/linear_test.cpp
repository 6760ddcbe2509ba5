#include "attend/ops/linear.h"

#include "attend/ops/fast_kernels.h"
#include "attend/ops/flop_counter.h"
#include "ops/autocast.h"
#include "ops/fast_linear.h"
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
#include <cmath>
#include <functional>
#include <set>
#include <sstream>
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

/// Inputs of random shapes and layouts: x (..., in), weight (out, in), and a bias (out), which may
/// be undefined. Elements of `shape`, the sizes of x before the last one, are at least `min_size`.
Tensors draw_inputs(int64_t in, int64_t out, int64_t min_size) {
  std::vector<int64_t> shape;
  for (auto dims = draw(0, 2); dims > 0; --dims) shape.push_back(draw(min_size, 5));
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
  return {x, weight, biases.at(static_cast<std::size_t>(draw(0, 3)))};
}

std::string layout_of(const Tensors& inputs) {
  std::ostringstream text;
  for (const auto& each : inputs) {
    if (each.defined()) text << each.sizes() << " with strides " << each.strides() << "; ";
  }
  return text.str();
}

TEST(Linear, EqualsTorchLinearForRandomShapesAndLayouts) {
  const torch::NoGradGuard no_grad;
  seed_afresh();
  for (int i = 0; i < 60; ++i) {
    // Half of the weights are so large that oneDNN may be used.
    const bool is_large = draw(0, 1) == 1;
    const auto in = is_large ? draw(363, 500) : draw(0, 400);
    const auto out = is_large ? draw(363, 500) : draw(0, 400);
    const auto inputs = draw_inputs(in, out, /*min_size=*/0);
    SCOPED_TRACE(layout_of(inputs));
    EXPECT_TRUE(
        equals_in_float64(apply_linear(inputs[0], inputs[1], inputs[2]), inputs,
                          [](const Tensors& exact) { return plain(exact[0], exact[1], exact[2]); },
                          {.terms = in + 1}));
  }
}

struct OneDnnLinear : testing::Test {
  void SetUp() override {
    if (!can_use_one_dnn()) GTEST_SKIP() << "this LibTorch has no oneDNN";
    seed_afresh();
  }

  /// Calls `derivatives(inputs, linear)` for random inputs, with the product of oneDNN, and
  /// compares the results with those of `torch::linear` in float64. `derivatives` must not depend
  /// on other random numbers.
  static void check(
      const std::function<Tensors(const Tensors&, const TensorFunction& linear)>& derivatives) {
    for (int i = 0; i < 30; ++i) {
      const auto in = draw(1, 40);
      const auto out = draw(1, 40);
      auto inputs = draw_inputs(in, out, /*min_size=*/1);
      if (!inputs[2].defined()) inputs.pop_back();
      SCOPED_TRACE(layout_of(inputs));
      const auto bias = [](const Tensors& all) {
        return all.size() < 3 ? torch::Tensor() : all[2];
      };
      const auto found = derivatives(
          inputs, [&](const Tensors& all) { return one_dnn_linear(all[0], all[1], bias(all)); });
      const auto expected = [&](const Tensors& exact) {
        return derivatives(exact,
                           [&](const Tensors& all) { return plain(all[0], all[1], bias(all)); });
      };
      const auto terms = std::max({in, out, inputs[0].numel() / in}) + 1;
      EXPECT_TRUE(equals_in_float64(found, inputs, expected, {.terms = terms}));
    }
  }
};

/// Returns leaves that share the elements of `inputs`.
Tensors as_leaves(const Tensors& inputs) {
  Tensors leaves;
  for (const auto& each : inputs) leaves.push_back(each.detach().requires_grad_());
  return leaves;
}

TEST_F(OneDnnLinear, HasTheGradientsOfTorchLinear) {
  check([](const Tensors& inputs, const TensorFunction& linear) {
    const auto leaves = as_leaves(inputs);
    return torch::autograd::grad({linear(leaves).square().sum()}, leaves);
  });
}

TEST_F(OneDnnLinear, HasTheSecondGradientsOfTorchLinear) {
  check([](const Tensors& inputs, const TensorFunction& linear) {
    const auto leaves = as_leaves(inputs);
    const auto first = torch::autograd::grad({linear(leaves).square().sum()}, leaves, {}, {},
                                             /*create_graph=*/true);
    auto sum = torch::zeros({}, inputs[0].options());
    for (const auto& each : first) sum = sum + each.square().sum();
    return torch::autograd::grad({sum}, leaves);
  });
}

TEST_F(OneDnnLinear, ComputesOnlyRequiredGradients) {
  const auto x = torch::randn({3, 20});
  const auto weight = torch::randn({30, 20});
  const auto trained = torch::randn({30}).requires_grad_();
  const auto y = one_dnn_linear(x, weight, trained);
  EXPECT_FALSE(calls(operators_of([&] { y.sum().backward(); }), "mkldnn::_linear_pointwise"));
  EXPECT_TRUE(torch::equal(trained.grad(), torch::full({30}, 3.0)));
}

TEST_F(OneDnnLinear, SavesOnlyWhatGradientsNeed) {
  auto x = torch::randn({3, 20}).requires_grad_();
  const auto frozen = torch::randn({30, 20});
  auto bias = torch::randn({30}).requires_grad_();
  auto h = x * 1;
  const auto y = one_dnn_linear(h, frozen, bias);
  const torch::Tensor loss = y.sum() + h.add_(1).sum();
  {
    const torch::NoGradGuard no_grad;
    bias.add_(1);
  }
  loss.backward();
  EXPECT_TRUE(close(x.grad(), frozen.sum(0).expand({3, 20}) + 1, 1e-5));
}

TEST_F(OneDnnLinear, HasGradientsInFloat32UnderAutocast) {
  const auto inputs = as_leaves({torch::randn({3, 20}), torch::randn({30, 20})});
  const auto gradients = [&](bool create_graph) {
    const auto y = one_dnn_linear(inputs[0], inputs[1], {});
    const AutocastGuard autocast(torch::kCPU, {.enabled = true, .dtype = torch::kBFloat16});
    return torch::autograd::grad({y.sum()}, inputs, {}, {}, create_graph);
  };
  for (const bool create_graph : {false, true}) {
    const auto found = gradients(create_graph);
    EXPECT_TRUE(close(found[0], inputs[1].sum(0).expand({3, 20}), 1e-5));
    EXPECT_TRUE(close(found[1], inputs[0].sum(0).expand({30, 20}), 1e-5));
  }
}

TEST(LinearWithActivation, EqualsTheActivationOfTheProduct) {
  const torch::NoGradGuard no_grad;
  seed_afresh();
  for (const auto name : EnumNames<Activation>::names) {
    const auto activation = from_string<Activation>(name).value();
    for (const bool is_large : {false, true}) {
      const auto in = is_large ? draw(363, 500) : draw(1, 40);
      const auto out = 2 * (is_large ? draw(182, 250) : draw(1, 20));
      const torch::nn::Linear layer(torch::nn::LinearOptions(in, out).bias(draw(0, 1) == 1));
      for (const bool is_prepared : {false, true}) {
        if (is_prepared) prepare_weight(layer->weight, WeightFormat::packed);
        const auto x = torch::randn({draw(1, 3), draw(1, 12), in});
        EXPECT_TRUE(equals_in_float64(apply_linear(x, layer->weight, layer->bias, activation),
                                      {x, layer->weight, layer->bias},
                                      [&](const Tensors& exact) {
                                        return activate(plain(exact[0], exact[1], exact[2]),
                                                        activation);
                                      },
                                      {.terms = in + 1}))
            << name << " " << x.sizes() << " " << layer->weight.sizes();
      }
    }
  }
}

TEST(LinearWithActivation, KeepsNaN) {
  const torch::NoGradGuard no_grad;
  const torch::nn::Linear layer(480, 300);
  layer->bias[7] = NAN;
  for (const bool is_prepared : {false, true}) {
    if (is_prepared) prepare_weight(layer->weight, WeightFormat::packed);
    for (const auto name : EnumNames<Activation>::names) {
      const auto y = apply_linear(torch::randn({20, 480}), layer->weight, layer->bias,
                                  from_string<Activation>(name).value());
      EXPECT_TRUE(y.select(-1, 7).isnan().all().item<bool>()) << name;
    }
  }
}

TEST_F(LinearTest, AppliesTheActivationInTheCallOfOneDnn) {
  const torch::nn::Linear layer(480, 300);
  if (!prepare_weight(layer->weight, WeightFormat::packed))
    GTEST_SKIP() << "this processor or this LibTorch does not support the format";
  for (const auto activation :
       {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::relu}) {
    const auto names =
        operators_of([&] { apply_linear(x, layer->weight, layer->bias, activation); });
    EXPECT_TRUE(calls(names, "mkldnn::_linear_pointwise"));
    EXPECT_EQ(names.contains("aten::relu") || names.contains("aten::gelu") ||
                  names.contains("aten::silu"),
              activation == Activation::relu);
    const NoInferenceKernelsGuard guard;  // as in a recomputed forward pass
    EXPECT_TRUE(torch::equal(apply_linear(x, layer->weight, layer->bias, activation),
                             activate(apply_linear(x, layer->weight, layer->bias), activation)));
  }
}

TEST_F(LinearTest, ComputesGradientsOfSmallWeightsWithTorchLinear) {
  const torch::AutoGradMode with_grad(true);
  const auto leaf = weight.slice(0, 0, 100).clone().requires_grad_();
  const auto names = operators_of([&] { apply_linear(x, leaf).sum().backward(); });
  EXPECT_TRUE(calls(names, "aten::linear"));
  EXPECT_TRUE(close(leaf.grad(), x.sum(at::IntArrayRef{0, 1}).expand_as(leaf), 1e-4));
}

TEST_F(LinearTest, HasTheSameBitsWithGradientsAsWithoutInferenceKernels) {
  const NoInferenceKernelsGuard guard;
  for (const auto& x : {torch::randn({2, 480}), torch::randn({40, 480})}) {
    const auto expected = apply_linear(x, weight, bias);
    const torch::AutoGradMode with_grad(true);
    EXPECT_TRUE(torch::equal(apply_linear(x, weight.detach().requires_grad_(), bias), expected));
  }
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

TEST_F(LinearTest, SupportsASparseWeight) {
  EXPECT_TRUE(close(apply_linear(x, weight.to_sparse_csr()), plain(x, weight), 1e-3));
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
