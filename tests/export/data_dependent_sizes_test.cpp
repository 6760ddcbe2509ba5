#include "export/program/data_dependent_sizes.h"

#include "export/program/traced_program.h"
#include "program/target.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <set>

namespace attend::program {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::StartsWith;
using torch::indexing::Slice;
using Function = std::vector<torch::Tensor> (*)(const torch::Tensor& x);

/// Traces a program with an input of shape (4, 6).
TracedProgram trace(Function function, TargetFormat format = TargetFormat::pt2) {
  torch::manual_seed(1);
  return trace_program(
      torch::nn::Module(), [&](const auto& in) { return Outputs(function(in[0])); },
      {torch::randn({4, 6})}, {.dynamic = {{0, 0, "batch"}, {0, 1, "length", 1, 64}}}, format);
}

/// Returns the size of dimension `dimension` of each output, as an expression or a number.
std::vector<std::string> sizes_of(Function function, std::size_t dimension = 0,
                                  TargetFormat format = TargetFormat::pt2) {
  const auto traced = trace(function, format);
  std::vector<std::string> sizes;
  for (const auto& output : traced.program.outputs) {
    const auto& name = std::get<TensorName>(output.value).name;
    const auto& size = traced.program.tensors.at(name).sizes.at(dimension);
    sizes.push_back(text_of(size));
  }
  return sizes;
}

/// Functions that return one tensor. The size of its dimension 0 depends on the values of x.
const std::vector<std::pair<const char*, Function>> kFunctions{
    {"masked_select", [](const auto& x) { return std::vector{x.masked_select(x > 0)}; }},
    {"index", [](const auto& x) { return std::vector{x.index({x > 0})}; }},
    {"index of rows", [](const auto& x) { return std::vector{x.index({x.sum(1) > 0})}; }},
    {"nonzero", [](const auto& x) { return std::vector{(x > 0).nonzero()}; }},
    {"argwhere", [](const auto& x) { return std::vector{(x > 0).argwhere()}; }},
    {"where", [](const auto& x) { return std::vector{torch::where(x > 0)[1]}; }},
    {"unique", [](const auto& x) { return std::vector{std::get<0>(at::_unique(x.round()))}; }},
    {"unique2", [](const auto& x) { return std::vector{std::get<0>(at::_unique2(x.round()))}; }},
    {"unique_dim",
     [](const auto& x) { return std::vector{std::get<0>(torch::unique_dim(x.round(), 0))}; }},
    {"unique_consecutive",
     [](const auto& x) { return std::vector{std::get<0>(torch::unique_consecutive(x.round()))}; }},
    {"unique_dim_consecutive",
     [](const auto& x) {
       return std::vector{std::get<0>(at::unique_dim_consecutive(x.round(), 0))};
     }},
    {"bincount",
     [](const auto& x) {
       return std::vector{(x.flatten() * 9).abs().to(torch::kLong).bincount()};
     }},
    {"one_hot",
     [](const auto& x) {
       return std::vector{torch::one_hot((x[0] * 9).abs().to(torch::kLong)).transpose(0, 1)};
     }},
    {"repeat_interleave",
     [](const auto& x) {
       return std::vector{torch::repeat_interleave((x[0] > 0).to(torch::kLong))};
     }},
};

TEST(DataDependentSizes, AreUnbackedSymbols) {
  for (const auto& [name, function] : kFunctions) {
    SCOPED_TRACE(name);
    EXPECT_THAT(sizes_of(function), ElementsAre("u0"));
  }
}

TEST(DataDependentSizes, OfAllOperatorsThatLibTorchTagsAreTested) {
  std::set<std::string> tested;
  for (const auto& [name, function] : kFunctions) {
    for (const auto& node : trace(function).program.nodes) tested.insert(node.target);
  }
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!name.name.starts_with("aten::") || name.overload_name == "out") continue;
    if (!op || !op->hasTag(at::Tag::dynamic_output_shape)) continue;
    // The next two operators have data-dependent sizes only in results that few programs use: the
    // residuals of a least-squares problem, and a tensor for the gradient of the CTC loss.
    if (name.name == "aten::linalg_lstsq" || name.name == "aten::_ctc_loss") continue;
    EXPECT_THAT(tested, Contains(target_of(name.name, name.overload_name)));
  }
}

TEST(DataDependentSizes, AreInTheDimensionOfTheIndex) {
  const auto columns = [](const torch::Tensor& x) {
    const auto cube = torch::stack({x, x, x});   // (3, 4, 6)
    const auto few = torch::tensor({{0}, {2}});  // (2, 1)
    return std::vector{x.index({Slice(), x.sum(0) > 0}), std::get<0>(torch::unique_dim(x, -1)),
                       x.repeat_interleave((x[0] > 0).to(torch::kLong), 1),
                       cube.index({few, x[0].slice(0, 0, 1).expand({4}).sum() > x.sum(1)})};
  };
  EXPECT_THAT(sizes_of(columns, 1), Each(StartsWith("u")));
}

TEST(DataDependentSizes, ComeFirstIfTheIndexedDimensionsAreNotAdjacent) {
  const auto apart = [](const torch::Tensor& x) {
    const auto cube = torch::stack({x, x, x});  // (3, 4, 6)
    return std::vector{cube.index({torch::tensor({1}), Slice(), x.sum(0) > 0})};
  };
  EXPECT_THAT(sizes_of(apart), ElementsAre("u0"));
}

/// The mask is written through a view.
TEST(DataDependentSizes, DependOnInputsWrittenInPlace) {
  const auto written = [](const torch::Tensor& x) {
    const auto mask = torch::ones({6}, torch::kBool);
    mask.slice(0, 0, 3).copy_(x[0].slice(0, 0, 1) < 50);
    return std::vector{torch::arange(6).index({mask})};
  };
  EXPECT_THAT(sizes_of(written), ElementsAre("u0"));
}

/// For all inputs that the exporter tries, `most` contains all elements of x. The expressions must
/// also be correct if `most` contains fewer elements.
TEST(DataDependentSizes, OfSlicesAreClamped) {
  const auto slices = [](const torch::Tensor& x) {
    const auto most = x.masked_select(x > -50);
    return std::vector{most.slice(0, 0, 3), most.slice(0, 1)};
  };
  EXPECT_THAT(sizes_of(slices), ElementsAre("min(u0, 3)", "max(-1 + u0, 0)"));
  EXPECT_THAT(sizes_of(slices, 0, TargetFormat::onnx),
              ElementsAre("min(u0, 3)", "max(-1 + u0, 0)"));
}

TEST(DataDependentSizes, AreEqualForTheSameMask) {
  const auto twice = [](const torch::Tensor& x) {
    const auto mask = x > 0;
    return std::vector{x.index({mask}), x.exp().index({mask}), mask.nonzero(), x.index({x > 0.5})};
  };
  EXPECT_THAT(sizes_of(twice), ElementsAre("u0", "u0", "u0", "u1"));
}

TEST(DataDependentSizes, AreVariablesOfLaterSizes) {
  const auto later = [](const torch::Tensor& x) {
    const auto some = x.masked_select(x > 0);
    return std::vector{some.relu(), torch::cat({some, some}), torch::cat({some, x[0]}),
                       some.slice(0, 0, 3)};
  };
  EXPECT_THAT(sizes_of(later), ElementsAre("u0", "2*u0", "s1 + u0", "min(u0, 3)"));
}

TEST(DataDependentSizes, AreUnbackedIfNoTriedValueChangesThem) {
  const auto all = [](const torch::Tensor& x) { return std::vector{x.masked_select(x == x)}; };
  EXPECT_THAT(sizes_of(all), ElementsAre("u0"));
  EXPECT_THAT(sizes_of(all, 0, TargetFormat::onnx), ElementsAre("u0"));
}

TEST(DataDependentSizes, AreUnbackedIfNoTriedValueSelectsElements) {
  const auto none = [](const torch::Tensor& x) {
    return std::vector{x.masked_select(x > 50), torch::cat({x.masked_select(x > 50), x[0]})};
  };
  for (const auto format : {TargetFormat::pt2, TargetFormat::onnx}) {
    EXPECT_THAT(sizes_of(none, 0, format), ElementsAre("u0", "u2"));
  }
}

TEST(DataDependentSizes, AreNotUnbackedIfTheMaskIsConstant) {
  const auto constant = [](const torch::Tensor& x) {
    return std::vector{x.transpose(0, 1).index({torch::ones({6}) > 0})};
  };
  torch::manual_seed(1);
  const auto traced =
      trace_program(torch::nn::Module(), [&](const auto& in) { return Outputs(constant(in[0])); },
                    {torch::randn({4, 6})}, {.dynamic = {{0, 0, "batch"}}});
  EXPECT_EQ(traced.program.tensors.at("index").sizes.at(0).value, 6);
  EXPECT_TRUE(traced.program.tensors.at("index").sizes.at(0).expression.empty());
}

}  // namespace
}  // namespace attend::program
