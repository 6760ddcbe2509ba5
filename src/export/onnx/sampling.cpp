#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <fmt/format.h>

#include <array>

namespace attend::onnx {
namespace {

void grid_sampler(Call& call) {
  if (call.rank("input") != 4 && call.graph().opset() < 20) {
    call.fail(fmt::format("an input with {} dimensions requires opset 20 or newer, found opset {}",
                          call.rank("input"), call.graph().opset()));
  }
  // Names of LibTorch's enums GridSamplerInterpolation and GridSamplerPadding.
  constexpr std::array kModes{"bilinear", "nearest", "bicubic"};
  constexpr std::array kPaddings{"zeros", "border", "reflection"};
  const auto name_of = [&](const auto& names, const char* argument) -> std::string {
    return names.at(static_cast<std::size_t>(call.integer(argument)));
  };
  call.set_output(call.graph().add("GridSample", {call.tensor("input"), call.tensor("grid")},
                                   {{"mode", name_of(kModes, "interpolation_mode")},
                                    {"padding_mode", name_of(kPaddings, "padding_mode")},
                                    {"align_corners", int64_t{call.boolean("align_corners")}}}));
}

/// Returns the coordinates of `size` points between -1 and 1. With `align_corners`, the first and
/// the last point are -1 and 1. Without, the points are the centers of `size` equal intervals.
Value coordinates(Call& call, const program::Size& size, Type type, bool align_corners) {
  auto& graph = call.graph();
  const auto number = [&](int64_t value) { return graph.number(Type::int64, value); };
  const auto count = squeeze(call, call.size(size), {0});
  const auto last = graph.add("Sub", {count, number(1)});
  const auto doubled = graph.add("Mul", {call.range(size), number(2)});
  const auto distance = graph.cast(graph.add("Sub", {doubled, last}), type);
  const auto scale = align_corners ? graph.add("Max", {last, number(1)}) : count;
  return graph.add("Div", {distance, graph.cast(scale, type)});
}

/// Translates affine_grid_generator: for each point of an image (N, C, H, W) or (N, C, D, H, W),
/// theta (N, d, d + 1) times the vector of its coordinates (x, y, 1) or (x, y, z, 1).
void affine_grid(Call& call) {
  auto& graph = call.graph();
  const auto theta = call.tensor("theta");
  const auto& grid = call.result_sizes();  // (N, H, W, 2) or (N, D, H, W, 3)
  const auto count = grid.size() - 2;
  const auto column = [&](std::size_t i) {  // (N, 1, ..., 1, d)
    const auto index = graph.number(Type::int64, static_cast<int64_t>(i));
    auto dimensions = all_dimensions(static_cast<int64_t>(count) + 1);
    dimensions.erase(dimensions.begin());
    return unsqueeze(call, graph.add("Gather", {theta, index}, {{"axis", 2}}), dimensions);
  };
  auto sum = column(count);
  for (std::size_t i = 0; i < count; ++i) {  // x is the last dimension of the image
    const auto points =
        coordinates(call, grid.at(count - i), theta.type, call.boolean("align_corners"));
    std::vector<int64_t> shape(i + 2, 1);
    shape.front() = -1;
    const auto along = graph.add("Reshape", {points, graph.list(shape)});
    sum = graph.add("Add", {graph.add("Mul", {along, column(i)}), sum});
  }
  call.set_output(sum);
}

}  // namespace

void add_sampling_rules(Rules& rules) {
  rules["grid_sampler.default"] = grid_sampler;
  rules["affine_grid_generator.default"] = affine_grid;
}

}  // namespace attend::onnx
