#include "export/program/checked_program.h"

#include "export/program/decompositions.h"
#include "export/program/infer_tensor_meta.h"
#include "export/program/traced_program.h"
#include "support/throws.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>

namespace attend::program {
namespace {

const Size kRows{4, Expression::symbol("s0")};
const Size kSelected{0, Expression::unbacked("u0")};

/// Traces a function whose input is a matrix of shape (s0, 3).
TracedProgram trace_function(torch::Tensor (*function)(const torch::Tensor& x)) {
  return trace_program(torch::nn::Module(),
                       [=](const auto& in) { return Outputs(function(in[0])); },
                       {torch::linspace(-1, 1, 12).view({4, 3})}, {.dynamic = {{0, 0, "batch"}}});
}

auto checked_call(const TracedProgram& traced, const torch::Tensor& x) {
  return [&traced, x] {
    return CheckedProgram(traced.program, traced.weights, torch::kCPU).run({x}).at(0);
  };
}

std::vector<Size>& sizes_in(TracedProgram& traced, const char* name) {
  return traced.program.tensors.at(name).sizes;
}

torch::Tensor exp_sum(const torch::Tensor& x) {
  return x.exp().sum(1);
}

TEST(CheckedProgram, ReturnsTheOutputsForOtherSizes) {
  const auto traced = trace_function(exp_sum);
  const auto x = torch::randn({9, 3});
  EXPECT_TRUE(checked_call(traced, x)().equal(exp_sum(x)));
}

TEST(CheckedProgram, NamesATensorWithAWrongSize) {
  auto traced = trace_function(exp_sum);
  sizes_in(traced, "exp")[1] = {.value = 4, .expression = {}};
  EXPECT_THAT(checked_call(traced, torch::ones({4, 3})),
              throws<std::runtime_error>("the size of dimension 1 of the traced tensor 'exp' is 3, "
                                         "expected 4"));
}

TEST(CheckedProgram, EvaluatesExpressions) {
  auto traced = trace_function(exp_sum);
  sizes_in(traced, "sum")[0] = min(kRows, Size{5});
  EXPECT_NO_THROW(checked_call(traced, torch::ones({5, 3}))());
  EXPECT_THAT(checked_call(traced, torch::ones({6, 3})),
              throws<std::runtime_error>("the size of dimension 0 of the traced tensor 'sum' is 6, "
                                         "expected 5"));
}

TEST(CheckedProgram, RejectsAnotherNumberOfDimensions) {
  auto traced = trace_function(exp_sum);
  sizes_in(traced, "sum").push_back({.value = 1, .expression = {}});
  EXPECT_THAT(checked_call(traced, torch::ones({4, 3})),
              throws<std::runtime_error>("the traced tensor 'sum' has 1 dimensions, expected 2"));
}

TEST(CheckedProgram, FirstTensorWithAnUnbackedSymbolBindsIt) {
  const auto positive_twice = [](const torch::Tensor& x) {
    const auto some = x.masked_select(x > 0);
    return torch::cat({some.exp(), some});
  };
  auto traced = trace_function(positive_twice);
  ASSERT_EQ(sizes_in(traced, "masked_select")[0].expression, kSelected.expression);
  ASSERT_EQ(text_of(sizes_in(traced, "cat")[0]), "2*u0");
  for (const auto count : {0, 2, 12}) {  // in each run, the symbol has another value
    const auto x = torch::cat({torch::ones({count}), torch::zeros({12 - count})}).view({4, 3});
    EXPECT_TRUE(checked_call(traced, x)().equal(positive_twice(x)));
  }
  sizes_in(traced, "cat")[0] = kSelected;
  EXPECT_THAT(
      checked_call(traced, torch::ones({2, 3})),
      throws<std::runtime_error>("the size of dimension 0 of the traced tensor 'cat' is 12, "
                                 "expected 6"));
}

TEST(CheckedProgram, RunsDoNotShareUnbackedSymbols) {
  const auto traced =
      trace_function([](const torch::Tensor& x) { return x.masked_select(x > 0).exp(); });
  const CheckedProgram program(traced.program, traced.weights, torch::kCPU);
  EXPECT_EQ(program.run({torch::ones({2, 3})}).at(0).size(0), 6);
  EXPECT_EQ(program.run({torch::ones({5, 3})}).at(0).size(0), 15);
}

TEST(CheckedProgram, EvaluatesSymInts) {
  auto traced = trace_function([](const torch::Tensor& x) { return x.tensor_split(2, 0)[1]; });
  ASSERT_TRUE(decompose(traced.program));
  infer_tensor_meta(traced, TargetFormat::pt2);
  EXPECT_NO_THROW(checked_call(traced, torch::ones({5, 3}))());
  traced.program.sym_ints.rbegin()->second = {.value = 2, .expression = {}};
  EXPECT_THAT(checked_call(traced, torch::ones({5, 3})),
              throws<std::runtime_error>("' is 3, expected 2"));
}

}  // namespace
}  // namespace attend::program
