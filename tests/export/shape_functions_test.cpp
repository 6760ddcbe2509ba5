#include "export/program/shape_functions.h"

#include "export/program/traced_program.h"
#include "support/seed.h"

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <functional>

namespace attend::program {
namespace {

using OperatorCall = std::function<std::vector<torch::Tensor>(const torch::Tensor& x)>;

TracedProgram trace_call(const OperatorCall& function, const torch::Tensor& example,
                         const std::vector<DynamicDimension>& dynamic) {
  return trace_program(torch::nn::Module(),
                       [&](const auto& in) { return Outputs(function(in[0])); }, {example},
                       {.dynamic = dynamic});
}

const std::vector<Size>& output_sizes(const ExportedProgram& program, std::size_t index = 0) {
  return program.tensors.at(std::get<TensorName>(program.outputs.at(index).value).name).sizes;
}

/// Returns an operator with random arguments. Its input must have shape (1, 2, T), where T is at
/// least 40.
OperatorCall random_operator() {
  const auto kernel = draw(1, 12);
  const auto stride = draw(1, 20);
  const auto padding = draw(0, kernel / 2);
  const auto dilation = draw(1, 3);
  const auto draw_chunks = draw(1, 6);
  const bool ceil_mode = draw(0, 1) == 1;
  const auto start = draw(-900, 900);
  const auto end = draw(-900, 900);
  const std::vector<OperatorCall> functions{
      [=](const auto& x) {
        const auto weight = torch::ones({1, 2, kernel});
        return std::vector{torch::conv1d(x, weight, {}, stride, padding, dilation)};
      },
      [=](const auto& x) {
        return std::vector{torch::max_pool1d(x, kernel, stride, padding, dilation, ceil_mode)};
      },
      [=](const auto& x) {
        return std::vector{torch::avg_pool1d(x, kernel, stride, padding, ceil_mode)};
      },
      [=](const auto& x) {
        return std::vector{
            torch::max_pool2d(x, {2, kernel}, {1, stride}, {0, padding}, {1, dilation}, ceil_mode)};
      },
      [=](const auto& x) { return std::vector{x.slice(2, start, end, stride)}; },
      [=](const auto& x) { return std::vector{x.slice(2, start, std::nullopt, stride)}; },
      [=](const auto& x) { return std::vector{x.slice(2, std::nullopt, end)}; },
      [=](const auto& x) { return std::vector{x.unfold(-1, kernel, stride)}; },
      [=](const auto& x) {
        return std::vector{x.index({"...", torch::indexing::Slice(start, {}, stride)})};
      },
      [=](const auto& x) { return x.tensor_split(5 * stride, 2); },
      [=](const auto& x) { return x.chunk(draw_chunks, 2); },
      [=](const auto& x) {
        const auto weight = torch::ones({1, 1, kernel});  // unbatched
        return std::vector{
            torch::conv1d(x[0].slice(0, 0, 1), weight, {}, stride, padding).unsqueeze(0)};
      },
      [=](const auto& x) {
        const auto volume = x.unsqueeze(0).unsqueeze(-1);  // (1, 1, 2, T, 1)
        return std::vector{
            torch::avg_pool3d(volume, {1, kernel, 1}, {1, stride, 1}, {0, padding, 0}, ceil_mode)
                .squeeze(0)
                .squeeze(-1)};
      },
      [=](const auto& x) { return std::vector{torch::max_pool1d(x, kernel)}; },
      [=](const auto& x) {
        return std::vector{torch::conv1d(x, torch::ones({1, 2, kernel}), {}, 1, "same", dilation)};
      },
      [=](const auto& x) {
        const auto half = x.slice(2, 0, std::nullopt, 2).relu();
        return std::vector{torch::max_pool1d(half, kernel, stride, padding, 1, ceil_mode)};
      }};
  return functions.at(
      static_cast<std::size_t>(draw(0, static_cast<int64_t>(functions.size()) - 1)));
}

TEST(ShapeFunctions, AreRightAtAllSizes) {
  seed_afresh();
  constexpr int64_t kMin = 40;
  constexpr int64_t kMax = 4000;
  for (int i = 0; i < 60; ++i) {
    const auto function = random_operator();
    DynamicDimension dynamic{0, 2, "length", kMin};
    if (draw(0, 1) == 0) dynamic.max = kMax;
    const auto traced = trace_call(function, torch::zeros({1, 2, kMin + 5}), {dynamic});
    for (const auto& node : traced.program.nodes) {
      for (const auto& [key, size] : shape_function(node, traced.program)) {
        EXPECT_EQ(traced.program.tensors.at(key.first).sizes.at(key.second).expression,
                  size.expression);
      }
    }
    for (int j = 0; j < 60; ++j) {
      const auto length = j < 30 ? draw(kMin, kMin + 900) : draw(kMin, kMax);
      const auto outputs = function(torch::zeros({1, 2, length}));
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        const auto& size = output_sizes(traced.program, k).at(2);
        ASSERT_EQ(evaluate(size, {{"s0", length}}), outputs[k].size(2))
            << "operator " << i << ", length " << length << ", " << text_of(size);
      }
    }
  }
}

TEST(ShapeFunctions, GiveSizesThatWouldNeedTooMuchMemory) {
  const auto wide = [](const torch::Tensor& x) {
    const auto first = x.slice(1, 0, 900);
    return std::vector{first, first.relu(), first.sum(2), x.slice(1, -900), x.slice(1, 900)};
  };
  const auto traced = trace_call(wide, torch::zeros({2, 8, 60'000}),
                                 {{0, 0, "batch", 1, 64}, {0, 1, "length", 1, 4096}});
  const std::map<std::string, int64_t> symbols{{"s0", 64}, {"s1", 4000}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(evaluate(output_sizes(traced.program, i).at(1), symbols), 900) << i;
  }
  EXPECT_EQ(evaluate(output_sizes(traced.program, 4).at(1), symbols), 4000 - 900);
}

TEST(ShapeFunctions, DetermineStridesAndLaterSizes) {
  const auto wide = [](const torch::Tensor& x) {
    const auto first = x.slice(1, 0, 900);
    return std::vector{first, x.flatten(1, 2).unflatten(1, {-1, 60'000})};
  };
  const auto traced =
      trace_call(wide, torch::zeros({2, 8, 60'000}), {{0, 0, "batch"}, {0, 1, "length", 1, 4096}});
  const std::map<std::string, int64_t> symbols{{"s0", 64}, {"s1", 4000}};
  const auto& slice =
      traced.program.tensors.at(std::get<TensorName>(traced.program.outputs[0].value).name);
  EXPECT_EQ(evaluate(slice.strides.at(0), symbols), 60'000 * 4000);
  EXPECT_FALSE(slice.is_contiguous.has_value());
  EXPECT_EQ(evaluate(output_sizes(traced.program, 1).at(1), symbols), 4000);
}

TEST(ShapeFunctions, ClampSizesThatDependOnValues) {
  const auto slices = [](const torch::Tensor& x) {
    return std::vector{x.masked_select(x > 0).slice(0, 0, 900).relu()};
  };
  const auto traced = trace_call(slices, torch::randn({8}), {{0, 0, "length", 4, 64}});
  EXPECT_EQ(text_of(output_sizes(traced.program).at(0)), "min(u0, 900)");
}

TEST(ShapeFunctions, OmitClampsThatTheRangesExclude) {
  const auto slices = [](const torch::Tensor& x) {
    using torch::indexing::Slice;
    return std::vector{x.slice(0, 2), x.slice(0, 0, 64), x.slice(0, -3), x.index({Slice(2)}),
                       x.index({Slice(-3)})};
  };
  const auto traced = trace_call(slices, torch::zeros({8}), {{0, 0, "length", 4, 64}});
  EXPECT_EQ(text_of(output_sizes(traced.program, 0).at(0)), "-2 + s0");
  EXPECT_EQ(text_of(output_sizes(traced.program, 1).at(0)), "s0");
  EXPECT_TRUE(output_sizes(traced.program, 2).at(0).expression.empty());
  EXPECT_EQ(output_sizes(traced.program, 3).at(0).expression,
            output_sizes(traced.program, 0).at(0).expression);
  EXPECT_TRUE(output_sizes(traced.program, 4).at(0).expression.empty());
}

}  // namespace
}  // namespace attend::program
