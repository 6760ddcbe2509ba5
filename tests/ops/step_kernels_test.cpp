#include "ops/step_kernels.h"

#include "support/close.h"
#include "support/instruction_sets.h"
#include "support/rounding.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend {
namespace {

struct StepKernels : InstructionSetTest {
  /// Runs the kernel for query (D), and keys and values (S, D).
  static torch::Tensor run(const torch::Tensor& query, const torch::Tensor& keys,
                           const torch::Tensor& values, float scale) {
    auto output = torch::empty(query.sizes());
    attend_one_query({.query = query.const_data_ptr<float>(),
                      .keys = keys.const_data_ptr<float>(),
                      .values = values.const_data_ptr<float>(),
                      .output = output.mutable_data_ptr<float>(),
                      .key_stride = keys.stride(0),
                      .value_stride = values.stride(0),
                      .count = keys.size(0),
                      .head_dim = query.size(0),
                      .scale = scale});
    return output;
  }
};

TEST_P(StepKernels, EqualsTheFormulaForRandomShapes) {
  seed_afresh();
  for (int i = 0; i < 100; ++i) {
    const auto keys = draw(1, i % 5 == 0 ? 1000 : 40);
    const auto width = draw(1, 140);
    SCOPED_TRACE(testing::Message() << keys << " keys, width " << width);
    const auto query = torch::randn({width});
    const auto key = torch::randn({keys, width + 3}).slice(1, 0, width);
    const auto value = torch::randn({keys, width + 5}).slice(1, 0, width);
    EXPECT_TRUE(equals_in_float64(
        run(query, key, value, 0.4F), {query, key, value},
        [](const Tensors& in) {
          return torch::mv(in[2].t(), torch::softmax(torch::mv(in[1], in[0]) * 0.4, 0));
        },
        {.terms = std::max(keys, width)}));
  }
}

TEST_P(StepKernels, AcceptsLargeScores) {
  // exp of these scores overflows, and the last block has the largest score.
  const auto key = torch::arange(600, torch::kFloat).unsqueeze(1);
  EXPECT_TRUE(close(run(torch::ones({1}), key, key, 1), torch::full({1}, 598.418023), 1e-4));
  EXPECT_TRUE(close(run(torch::ones({1}), -key, key, 1), torch::full({1}, 0.581977), 1e-5));
}

TEST_P(StepKernels, AcceptsScoresOfMinusInfinity) {
  auto key = torch::zeros({600, 1});
  key.narrow(0, 0, 300).fill_(-std::numeric_limits<float>::infinity());  // more than a block
  const auto value = torch::arange(600, torch::kFloat).unsqueeze(1);
  EXPECT_TRUE(close(run(torch::ones({1}), key, value, 1), torch::full({1}, 449.5), 1e-3));
  EXPECT_TRUE(run(torch::ones({1}), key.narrow(0, 0, 300), value, 1).isnan().item<bool>());
}

TEST_P(StepKernels, GivesNanIfAScoreIsNan) {
  for (const int64_t bad : {0, 17, 299, 599}) {
    auto key = torch::randn({600, 20});
    key[bad][3] = std::nanf("");
    EXPECT_TRUE(run(torch::randn({20}), key, torch::randn({600, 20}), 1).isnan().all().item<bool>())
        << bad;
  }
}

TEST_P(StepKernels, NormEqualsTheFormulaForRandomWidths) {
  seed_afresh();
  for (int i = 0; i < 100; ++i) {
    const auto width = draw(2, 150);
    const bool subtracts_mean = draw(0, 1) == 1;
    const auto x = torch::randn({width}) + 2, weight = torch::randn({width});
    const auto bias = draw(0, 1) == 1 ? torch::randn({width}) : torch::Tensor();
    const auto y = torch::empty({width});
    normalize({.x = x.const_data_ptr<float>(),
               .weight = weight.const_data_ptr<float>(),
               .bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr,
               .y = y.mutable_data_ptr<float>(),
               .width = width,
               .eps = 0.01,
               .subtracts_mean = subtracts_mean});
    const auto formula = [&](const Tensors& in) {
      const auto centered = subtracts_mean ? in[0] - in[0].mean() : in[0];
      const auto scaled = centered / (centered.square().mean() + 0.01).sqrt() * in[1];
      return in[2].defined() ? scaled + in[2] : scaled;
    };
    EXPECT_TRUE(equals_in_float64(y, {x, weight, bias}, formula, {.terms = width}))
        << width << (subtracts_mean ? "" : ", RMSNorm");
  }
}

TEST_P(StepKernels, ActivationsEqualLibTorchForRandomNumbers) {
  seed_afresh();
  for (const auto activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                Activation::silu, Activation::relu2, Activation::glu,
                                Activation::geglu, Activation::geglu_tanh, Activation::swiglu}) {
    SCOPED_TRACE(to_string(activation));
    const auto count = draw(1, 150);
    const auto x = torch::randn({count}) * 4, factor = torch::randn({count});
    x[draw(0, count - 1)] = draw(0, 1) == 1 ? 300.0 : -300.0;  // exp(300) overflows
    auto y = torch::empty({count});
    activate({.x = x.const_data_ptr<float>(),
              .factor = is_gated(activation) ? factor.const_data_ptr<float>() : nullptr,
              .y = y.mutable_data_ptr<float>(),
              .count = count,
              .activation = activation});
    const auto inputs = is_gated(activation) ? torch::cat({x, factor}) : x;
    // Each element is divided by the size of its terms, of which some cancel out, as in
    // x * (1 + erf(x)).
    const auto terms = x.clamp(-20, 20).abs() + 1;
    const auto size = activate(inputs.to(torch::kDouble), activation).abs() +
                      (is_gated(activation) ? terms * factor.abs() : terms);
    EXPECT_TRUE(equals_in_float64(
        y / size, {inputs}, [&](const Tensors& in) { return activate(in[0], activation) / size; },
        {.dtype = torch::kFloat, .largest_term = 1}));
  }
}

TEST_P(StepKernels, ActivationsOfNanAreNan) {
  for (const auto activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh,
                                Activation::silu, Activation::relu2, Activation::glu}) {
    const auto x = torch::full({40}, std::nanf(""));
    auto y = torch::zeros({40});
    activate({.x = x.const_data_ptr<float>(),
              .y = y.mutable_data_ptr<float>(),
              .count = 40,
              .activation = activation});
    EXPECT_TRUE(y.isnan().all().item<bool>()) << to_string(activation);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, StepKernels,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         instruction_set_name);

}  // namespace
}  // namespace attend
