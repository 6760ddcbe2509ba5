#include "export/program/decompositions.h"

#include "export/program/infer_tensor_meta.h"
#include "export/program/traced_program.h"
#include "program/target.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>

namespace attend::program {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using TensorFunction = std::function<std::vector<torch::Tensor>(const torch::Tensor& x)>;

/// Traces and decomposes a program with an input of shape (4, 6, 8). The first two dimensions are
/// dynamic.
ExportedProgram decomposed(const TensorFunction& function) {
  const std::vector<torch::Tensor> example{torch::randn({4, 6, 8})};
  const std::vector<DynamicDimension> dynamic{{0, 0, "batch"}, {0, 1, "length", 2, 64}};
  auto traced =
      trace_program(torch::nn::Module(), [&](const auto& in) { return Outputs(function(in[0])); },
                    example, {.dynamic = dynamic});
  if (decompose(traced.program)) infer_tensor_meta(traced, TargetFormat::pt2);
  return traced.program;
}

/// Returns the number of calls of each ATen operator.
std::map<std::string, int> calls_in(const ExportedProgram& program) {
  std::map<std::string, int> counts;
  for (const auto& node : program.nodes) {
    if (is_operator(node.target)) ++counts[parse_target(node.target).name];
  }
  return counts;
}

std::vector<std::string> sizes_of_output(const ExportedProgram& program) {
  std::vector<std::string> sizes;
  const auto& name = std::get<TensorName>(program.outputs.front().value).name;
  for (const auto& size : program.tensors.at(name).sizes) {
    sizes.push_back(text_of(size));
  }
  return sizes;
}

TEST(Decompositions, SplitBySlices) {
  const auto split = [](const auto& x) { return x.tensor_split(3, 1); };
  const auto program = decomposed(split);
  EXPECT_THAT(calls_in(program),
              UnorderedElementsAre(std::pair("sym_size", 1), std::pair("slice", 3)));
  EXPECT_THAT(sizes_of_output(program), ElementsAre("s0", "(2 + s1) // 3", "8"));
}

TEST(Decompositions, KeepOperatorsOnConstantDimensions) {
  const auto constant = [](const auto& x) {
    const auto parts = x.tensor_split(3, 2);
    const auto square = x.matmul(x.transpose(1, 2));  // (batch, length, length)
    return std::vector{parts[0],
                       x.select(0, 0).select(0, 0).unsqueeze(0).diagonal(),
                       square.diagonal(1, 1, 2),
                       torch::adaptive_avg_pool1d(x, 3),
                       torch::adaptive_avg_pool2d(x, {1, 3}),
                       torch::adaptive_avg_pool2d(x, {0, 3})};
  };
  const auto calls = calls_in(decomposed(constant));
  EXPECT_EQ(calls.count("slice"), 0);
  EXPECT_EQ(calls.at("tensor_split"), 1);
  EXPECT_EQ(calls.at("diagonal"), 2);
  EXPECT_EQ(calls.at("adaptive_avg_pool1d"), 1);
  EXPECT_EQ(calls.at("adaptive_avg_pool2d"), 2);
}

TEST(Decompositions, KeepSizesOfManyParts) {
  const auto split = [](const auto& x) { return x.tensor_split(70, 1); };
  const auto program = decomposed(split);
  const auto& last = std::get<TensorName>(program.outputs.back().value).name;
  EXPECT_EQ(text_of(program.tensors.at(last).sizes.at(1)), "s1 // 70");
}

TEST(Decompositions, TakeTheDiagonalOfASquareSlice) {
  const auto diagonal = [](const auto& x) { return std::vector{x.diagonal(1, 1, 2)}; };
  const auto program = decomposed(diagonal);
  EXPECT_THAT(calls_in(program),
              UnorderedElementsAre(std::pair("sym_size", 1), std::pair("slice", 2),
                                   std::pair("diagonal", 1)));
  EXPECT_THAT(sizes_of_output(program), ElementsAre("s0", "min(s1, 7)"));
}

TEST(Decompositions, PoolWindows) {
  const auto pool = [](const auto& x) {
    return std::vector{torch::adaptive_avg_pool2d(x.unsqueeze(1), {3, 1})};
  };
  const auto program = decomposed(pool);
  EXPECT_EQ(calls_in(program).at("mean"), 3 + 1);
  EXPECT_THAT(sizes_of_output(program), ElementsAre("s0", "1", "3", "1"));
}

TEST(Decompositions, KeepAdaptiveMaxPoolingIfTheIndicesAreUsed) {
  const auto pool = [](const auto& x) {
    const auto [values, indices] = torch::adaptive_max_pool1d(x.transpose(1, 2), 3);
    return std::vector{values, indices};
  };
  EXPECT_EQ(calls_in(decomposed(pool)).at("adaptive_max_pool1d"), 1);
}

TEST(Decompositions, PoolInTwoDimensionsInsteadOfOne) {
  const auto pool = [](const auto& x) {
    return std::vector{torch::max_pool1d(x.transpose(1, 2), 2)};
  };
  EXPECT_EQ(calls_in(decomposed(pool)).at("max_pool2d"), 1);
}

}  // namespace
}  // namespace attend::program
