#include "export/onnx/rules.h"

#include <cmath>
#include <optional>

namespace attend::onnx {
namespace {

/// A dimension that a call resizes.
struct Resized {
  int64_t dimension;
  Value size;                    // int64 of shape (1)
  Value new_size;                // int64 of shape (1)
  std::optional<double> factor;  // scale factor, if the call has one
};

std::vector<double> factors_of(Call& call) {
  if (call.has("scale_factors")) return call.reals("scale_factors");
  std::vector<double> factors;
  for (const auto* name : {"scales", "scales_d", "scales_h", "scales_w"}) {
    if (call.has(name)) factors.push_back(call.real(name));
  }
  return factors;
}

/// Returns floor(size * factor), which LibTorch computes in float64.
int64_t scaled(int64_t size, double factor) {
  return static_cast<int64_t>(static_cast<double>(size) * factor);
}

Value scaled(Call& call, Value size, double factor) {
  auto& graph = call.graph();
  const auto product =
      graph.add("Mul", {graph.cast(size, Type::float64), graph.number(Type::float64, factor)});
  return graph.cast(graph.add("Floor", {product}), Type::int64);
}

std::string input_name(Call& call) {
  return call.has("input") ? "input" : "self";
}

/// Returns the dimensions after the batch and channel dimension.
std::vector<Resized> resized_dimensions(Call& call) {
  auto& graph = call.graph();
  const auto input = call.tensor(input_name(call));
  const auto& sizes = call.sizes(input_name(call));
  const auto factors = factors_of(call);
  std::vector<Resized> resized;
  for (std::size_t i = 0; i + 2 < sizes.size(); ++i) {
    const auto& size = sizes[i + 2];
    const auto dimension = static_cast<int64_t>(i) + 2;
    auto& each = resized.emplace_back();
    each.dimension = dimension;
    each.size =
        graph.add("Shape", {input}, {{"start", dimension}, {"end", dimension + 1}}, Type::int64);
    if (!factors.empty()) each.factor = factors.at(i);
    if (!call.has("output_size")) {
      each.new_size = scaled(call, each.size, *each.factor);
      continue;
    }
    const auto new_size = call.integers("output_size").at(i);
    if (each.factor && (!is_fixed(size) || new_size != scaled(size.value, *each.factor))) {
      call.fail("expected an output size or a scale factor of dimension " +
                std::to_string(dimension) + ", found the output size " + std::to_string(new_size) +
                " and the scale factor " + std::to_string(*each.factor));
    }
    each.new_size = graph.list({new_size});
  }
  return resized;
}

/// For each index along the resized dimension of the output, returns the index in the input from
/// which the element is copied. ONNX's operator Resize is not used, since it rounds differently
/// from LibTorch's kernels. As in these kernels, the indices are computed in float32. The kernel
/// for images (2d) computes them exactly if the size stays the same or doubles.
Value nearest_indices(Call& call, const Resized& resized, bool is_image) {
  auto& graph = call.graph();
  const auto zero = graph.number(Type::int64, 0);
  const auto one = graph.number(Type::int64, 1);
  const auto two = graph.number(Type::int64, 2);
  const auto new_size = graph.add("Squeeze", {resized.new_size});
  const auto positions = graph.add("Range", {zero, new_size, one});
  const auto step = resized.factor
                        ? graph.number(Type::float32, 1.0 / *resized.factor)
                        : graph.add("Div", {graph.cast(resized.size, Type::float32),
                                            graph.cast(resized.new_size, Type::float32)});
  const auto product = graph.add("Mul", {graph.cast(positions, Type::float32), step});
  const auto floors = graph.cast(graph.add("Floor", {product}), Type::int64);
  auto indices = graph.add("Min", {floors, graph.add("Sub", {resized.size, one})});
  if (!is_image) return indices;
  const auto doubled = graph.add("Mul", {resized.size, two});
  indices = graph.where(graph.compare("Equal", resized.new_size, doubled),
                        graph.add("Div", {positions, two}), indices);
  return graph.where(graph.compare("Equal", resized.new_size, resized.size), positions, indices);
}

void nearest(Call& call) {
  auto value = call.tensor(input_name(call));
  const auto resized = resized_dimensions(call);
  for (const auto& each : resized) {
    value = call.graph().add("Gather", {value, nearest_indices(call, each, resized.size() == 2)},
                             {{"axis", each.dimension}});
  }
  call.set_output(value);
}

/// Returns true if `factor` is a multiple of 1/16. The product of such a factor and any size is
/// exact in float32, provided that the product is at most 2^20.
bool is_exact_in_float32(double factor) {
  return std::floor(16 * factor) == 16 * factor;
}

Value resize_by_factors(Call& call, Value input, const std::vector<Resized>& resized,
                        const Attributes& attributes) {
  auto& graph = call.graph();
  std::vector<Number> factors{1, 1};
  std::vector<int64_t> begins, dimensions;
  std::vector<int64_t> padding(2 * (resized.size() + 2));  // begins, then ends, of all dimensions
  std::vector<Value> ends;
  bool is_exact = true;
  for (const auto& each : resized) {
    factors.emplace_back(*each.factor);
    is_exact = is_exact && is_exact_in_float32(*each.factor);
    begins.push_back(0);
    ends.push_back(each.new_size);
    dimensions.push_back(each.dimension);
    padding[padding.size() / 2 + static_cast<std::size_t>(each.dimension)] =
        static_cast<int64_t>(std::ceil(2 / *each.factor)) + 1;
  }
  const auto count = static_cast<int64_t>(factors.size());
  const auto scales = graph.constant({Type::float32, {count}, std::move(factors)});
  if (is_exact) return graph.add("Resize", {input, Value{}, scales}, attributes);
  // Resize computes the new size in float32, so the new size may be wrong by 1. Therefore, Pad
  // first repeats the last elements, so that the result of Resize is long enough. Slice then cuts
  // this result to the right size. The padding does not change the elements that Slice keeps.
  const auto padded = graph.add("Pad", {input, graph.list(padding)}, {{"mode", "edge"}});
  const auto longer = graph.add("Resize", {padded, Value{}, scales}, attributes);
  return graph.add("Slice", {longer, graph.list(begins), graph.add("Concat", ends, {{"axis", 0}}),
                             graph.list(dimensions)});
}

Rule interpolated(const char* mode) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const bool align_corners = call.boolean("align_corners");
    const Attributes attributes{
        {"mode", mode},
        {"coordinate_transformation_mode", align_corners ? "align_corners" : "half_pixel"},
        {"cubic_coeff_a", -0.75}};
    const auto input = call.tensor(input_name(call));
    const auto resized = resized_dimensions(call);
    if (resized.front().factor && !align_corners)
      return call.set_output(resize_by_factors(call, input, resized, attributes));
    std::vector<Value> sizes{
        graph.add("Shape", {input}, {{"start", 0}, {"end", 2}}, Type::int64)};  // (B, C)
    for (const auto& each : resized) sizes.push_back(each.new_size);
    const auto new_shape = graph.add("Concat", sizes, {{"axis", 0}});
    call.set_output(graph.add("Resize", {input, Value{}, Value{}, new_shape}, attributes));
  };
}

}  // namespace

void add_resizing_rules(Rules& rules) {
  for (const auto* kind : {"1d", "2d", "3d"}) {
    rules[std::string("upsample_nearest") + kind + ".vec"] = nearest;
    rules[std::string("upsample_nearest") + kind + ".default"] = nearest;
  }
  for (const auto* overload : {".vec", ".default"}) {
    for (const auto* name : {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"}) {
      rules[std::string(name) + overload] = interpolated("linear");
    }
    rules[std::string("upsample_bicubic2d") + overload] = interpolated("cubic");
  }
}

}  // namespace attend::onnx
