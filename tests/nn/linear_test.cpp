// apply_linear with layers: bias, activations and low-rank adapters.
#include "attend/nn/linear.h"

#include "attend/nn/lora.h"
#include "nn/adapters.h"
#include "nn/new_layers.h"
#include "support/lora.h"
#include "support/rounding.h"
#include "support/seed.h"

#include <gtest/gtest.h>

namespace attend {
namespace {

/// Draws a layer and its adapters, whose rows do not overlap.
torch::nn::Linear draw_adapted_layer() {
  const auto rows = draw(1, 40);
  auto linear = new_linear(torch::nn::LinearOptions(draw(1, 40), rows).bias(draw(0, 1) == 1));
  int64_t first_row = 0;
  for (int64_t i = 0; i < draw(1, 3) && first_row < rows; ++i) {
    first_row += draw(0, 1) * draw(0, rows - first_row - 1);
    const auto count = draw(1, rows - first_row);
    add_lora_adapter(*linear, "lora_" + std::to_string(i),
                     {.first_row = first_row,
                      .rows = count,
                      .rank = draw(1, 5),
                      .alpha = static_cast<double>(draw(1, 9)),
                      .rslora = draw(0, 1) == 1});
    first_row += count;
  }
  draw_adapters(linear);
  return linear;
}

torch::Tensor draw_input(int64_t width) {
  switch (draw(0, 4)) {
    case 0:
      return torch::randn({width});
    case 1:
      return torch::randn({draw(1, 3), 1, width});
    case 2:
      return torch::randn({0, draw(1, 3), width});
    case 3:
      return torch::randn({width, draw(1, 9)}).t();  // strided
    default:
      return torch::randn({draw(1, 3), draw(1, 20), width});
  }
}

/// W x + b + scale B A x, of each adapter for its rows.
torch::Tensor formula(const torch::nn::Linear& layer, const torch::Tensor& x) {
  auto y = torch::linear(x, layer->weight, layer->bias);
  for (const auto& each : lora_adapters(layer)) {
    const auto& [A, B] = std::tie(each.adapter->A, each.adapter->B);
    const auto& options = each.adapter->options;
    const double rank = static_cast<double>(options.rank);
    const auto scale = options.alpha / (options.rslora ? std::sqrt(rank) : rank);
    const auto before = options.first_row;
    const auto after = y.size(-1) - before - options.rows;
    y = y + torch::constant_pad_nd(scale * x.matmul(A.t()).matmul(B.t()), {before, after});
  }
  return y;
}

TEST(LinearLayers, AddsTheProductsOfAdapters) {
  seed_afresh();
  for (int i = 0; i < 40; ++i) {
    auto layer = draw_adapted_layer();
    const auto x = draw_input(layer->options.in_features());
    const auto expected = [](const auto& exact, const Tensors& in) {
      return formula(exact, in[0]);
    };
    EXPECT_TRUE(equals_in_float64(apply_linear(x, layer), layer, {x}, expected));
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(equals_in_float64(apply_linear(x, layer), layer, {x}, expected));
    EXPECT_TRUE(equals_in_float64(apply_linear(x, layer, Activation::gelu), layer, {x},
                                  [](const auto& exact, const Tensors& in) {
                                    return activate(formula(exact, in[0]), Activation::gelu);
                                  }));
  }
}

TEST(LinearLayers, RangesOfRowsAddTheProductsOfTheirAdapters) {
  seed_afresh();
  for (int i = 0; i < 40; ++i) {
    auto layer = draw_adapted_layer();
    const auto x = draw_input(layer->options.in_features());
    const auto begin = draw(0, layer->options.out_features() - 1);
    const auto end = draw(begin + 1, layer->options.out_features());
    EXPECT_TRUE(equals_in_float64(apply_linear_rows(x, layer, {begin, end}), layer, {x},
                                  [=](const auto& exact, const Tensors& in) {
                                    return formula(exact, in[0]).slice(-1, begin, end);
                                  }));
  }
}

TEST(LinearLayers, GradientsReachAdaptersAndInputAlone) {
  seed_afresh();
  for (int i = 0; i < 20; ++i) {
    auto layer = draw_adapted_layer();
    layer->weight.requires_grad_(false);
    if (layer->bias.defined()) layer->bias.requires_grad_(false);
    const auto x = draw_input(layer->options.in_features()).requires_grad_();
    apply_linear(x, layer).pow(2).sum().backward();
    EXPECT_FALSE(layer->weight.grad().defined());
    Tensors found{x.grad()};
    for (const auto& each : lora_adapters(layer))
      found.insert(found.end(), {each.adapter->A.grad(), each.adapter->B.grad()});
    torch::nn::Linear exact(std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer->clone()));
    exact->to(torch::kDouble);
    const auto input = x.detach().to(torch::kDouble).requires_grad_();
    const auto gradients = [&]() -> Tensors {
      const torch::AutoGradMode with_gradients(true);
      Tensors targets{input};
      for (const auto& each : lora_adapters(exact))
        targets.insert(targets.end(), {each.adapter->A, each.adapter->B});
      return torch::autograd::grad({formula(exact, input).pow(2).sum()}, targets);
    };
    EXPECT_TRUE(within_rounding(found, leaves_of(*exact, {input}), gradients));
  }
}

TEST(LinearLayers, AdaptersOfReducedPrecisionAreComputedInFloat32AndRoundedOnce) {
  seed_afresh();
  for (const auto dtype : {torch::kBFloat16, torch::kHalf}) {
    auto layer = new_linear({24, 16});
    layer->to(dtype);
    auto adapter = add_lora_adapter(*layer, "lora", {.rank = 3});
    draw_adapters(layer);
    EXPECT_EQ(adapter->A.dtype(), torch::kFloat);
    EXPECT_EQ(adapter->B.dtype(), torch::kFloat);
    const auto x = torch::randn({2, 5, 24}).to(dtype);
    const auto y = apply_linear(x, layer);
    EXPECT_EQ(y.dtype(), dtype);
    const auto product = x.to(torch::kFloat).matmul(adapter->A.t()) * adapter->options.scale();
    const auto base = torch::linear(x, layer->weight, layer->bias);
    EXPECT_TRUE(y.equal((base + product.matmul(adapter->B.t())).to(dtype)));
  }
}

TEST(LinearLayers, AdaptersAreAddedToProductsOfQuantizedWeights) {
  seed_afresh();
  auto layer = new_linear({512, 384});
  if (!prepare_weight(layer->weight, WeightFormat::int8)) GTEST_SKIP() << "ATTEND_FAST is 0";
  auto adapter = add_lora_adapter(*layer, "lora", {.rank = 4});
  draw_adapters(layer);
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({1, 1, 512});
  const auto base = apply_linear(x, layer->weight, layer->bias);
  EXPECT_FALSE(base.equal(torch::linear(x, layer->weight, layer->bias)));  // uses the copy
  EXPECT_TRUE(apply_linear(x, layer).equal(base + adapter->forward(x)));
}

}  // namespace
}  // namespace attend
