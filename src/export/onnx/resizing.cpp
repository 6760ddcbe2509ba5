#include "export/onnx/rules.h"

#include <fmt/format.h>

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
  const auto& sizes = call.sizes(input_name(call));
  const auto factors = factors_of(call);
  std::vector<Resized> resized;
  for (std::size_t i = 0; i + 2 < sizes.size(); ++i) {
    const auto& size = sizes[i + 2];
    const auto dimension = static_cast<int64_t>(i) + 2;
    auto& each = resized.emplace_back();
    each.dimension = dimension;
    each.size = call.size(size);
    if (!factors.empty()) each.factor = factors.at(i);
    if (!call.has("output_size")) {
      each.new_size = scaled(call, each.size, *each.factor);
      continue;
    }
    if (call.is_computed("output_size")) {
      each.new_size = call.integer_value("output_size", i);
      continue;
    }
    const auto new_size = call.integers("output_size").at(i);
    if (each.factor && (!is_fixed(size) || new_size != scaled(size.value, *each.factor))) {
      call.fail("expected an output size or a scale factor of dimension " +
                std::to_string(dimension) + ", found the output size " + std::to_string(new_size) +
                " and the scale factor " + fmt::format("{}", *each.factor));
    }
    each.new_size = graph.list({new_size});
  }
  return resized;
}

/// Returns whether LibTorch chooses its kernel for small images: a bool of shape (1), or no value
/// if the tensor is not an image.
std::optional<Value> is_small_image(Call& call, const std::vector<Resized>& resized) {
  if (resized.size() != 2) return std::nullopt;
  auto& graph = call.graph();
  const auto sum = graph.add("Add", {resized[0].new_size, resized[1].new_size});
  return graph.compare("LessOrEqual", sum, graph.list({128}));
}

/// For each index along the resized dimension of the output, returns the index in the input from
/// which the element is copied. ONNX's operator Resize is not used, since it rounds differently
/// from LibTorch's kernels. As in these kernels, the indices are computed in float32. The kernel
/// for small images computes them exactly if the size stays the same or doubles, even if the factor
/// is not exactly 1 or 2.
Value nearest_indices(Call& call, const Resized& resized,
                      const std::optional<Value>& is_small_image) {
  auto& graph = call.graph();
  const auto zero = graph.number(Type::int64, 0);
  const auto one = graph.number(Type::int64, 1);
  const auto new_size = graph.add("Squeeze", {resized.new_size});
  const auto positions = graph.add("Range", {zero, new_size, one});
  const auto step = resized.factor
                        ? graph.number(Type::float32, 1.0 / *resized.factor)
                        : graph.add("Div", {graph.cast(resized.size, Type::float32),
                                            graph.cast(resized.new_size, Type::float32)});
  const auto product = graph.add("Mul", {graph.cast(positions, Type::float32), step});
  const auto floors = graph.cast(graph.add("Floor", {product}), Type::int64);
  const auto indices = graph.add("Min", {floors, graph.add("Sub", {resized.size, one})});
  const auto multiple = std::floor(resized.factor.value_or(0));
  const bool may_stay_or_double = multiple == 1 || multiple == 2;
  if (!is_small_image || !may_stay_or_double || multiple == resized.factor) return indices;
  const auto whole = graph.number(Type::int64, multiple);
  const auto is_multiple =
      graph.compare("Equal", resized.new_size, graph.add("Mul", {resized.size, whole}));
  return graph.where(graph.add("And", {is_multiple, *is_small_image}),
                     graph.add("Div", {positions, whole}), indices);
}

void nearest(Call& call) {
  auto value = call.tensor(input_name(call));
  const auto resized = resized_dimensions(call);
  const auto is_small = is_small_image(call, resized);
  for (const auto& each : resized) {
    value = call.graph().add("Gather", {value, nearest_indices(call, each, is_small)},
                             {{"axis", each.dimension}});
  }
  call.set_output(value);
}

/// Returns true if `factor` is a multiple of 1/16. The product of such a factor and any size is
/// exact in float32, provided that the product is at most 2^20.
bool is_exact_in_float32(double factor) {
  return std::floor(16 * factor) == 16 * factor;
}

/// Returns true if `factor` is larger than 1 and yet may keep a size larger than 1: floor(n *
/// factor) may be n.
bool may_keep_size(double factor) {
  return factor > 1 && factor < 1.5;
}

Value resize_by_factors(Call& call, Value input, const std::vector<Resized>& resized,
                        const Attributes& attributes, bool is_linear) {
  auto& graph = call.graph();
  std::vector<Number> factors{1, 1};  // of the batch and channel dimension
  std::vector<int64_t> begins, dimensions;
  std::vector<int64_t> padding(2 * (resized.size() + 2));  // begins, then ends, of all dimensions
  std::vector<Value> sizes{graph.list({1, 1})}, ends;
  bool is_exact = true, may_copy = false;
  for (const auto& each : resized) {
    factors.emplace_back(*each.factor);
    is_exact = is_exact && is_exact_in_float32(*each.factor);
    may_copy = may_copy || (is_linear && may_keep_size(*each.factor));
    sizes.push_back(each.size);
    begins.push_back(0);
    ends.push_back(each.new_size);
    dimensions.push_back(each.dimension);
    padding[padding.size() / 2 + static_cast<std::size_t>(each.dimension)] =
        static_cast<int64_t>(std::ceil(2 / *each.factor)) + 1;
  }
  const auto count = static_cast<int64_t>(factors.size());
  auto scales = graph.constant({Type::float32, {count}, std::move(factors)});
  if (may_copy) {
    // LibTorch's linear kernels copy the elements along a dimension whose size stays the same.
    auto new_sizes = ends;
    new_sizes.insert(new_sizes.begin(), sizes.front());
    const auto is_same = graph.compare("Equal", graph.add("Concat", sizes, {{"axis", 0}}),
                                       graph.add("Concat", new_sizes, {{"axis", 0}}));
    scales = graph.where(is_same, graph.number(Type::float32, 1), scales);
  }
  if (is_exact) return graph.add("Resize", {input, Value{}, scales}, attributes);
  // Resize computes the new size in float32, so the new size may be wrong by 1. Therefore, Pad
  // first repeats the last elements, so that the result of Resize is long enough. Slice then cuts
  // this result to the right size. The padding does not change the elements that Slice keeps.
  const auto padded = graph.add("Pad", {input, graph.list(padding)}, {{"mode", "edge"}});
  const auto longer = graph.add("Resize", {padded, Value{}, scales}, attributes);
  return graph.add("Slice", {longer, graph.list(begins), graph.add("Concat", ends, {{"axis", 0}}),
                             graph.list(dimensions)});
}

/// Returns the translation rule of resizing with interpolated elements. With `antialias`, LibTorch
/// uses another coefficient for cubic interpolation, and weights that omit the elements outside of
/// the input.
Rule interpolated(const std::string& mode, bool antialias = false) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const bool align_corners = call.boolean("align_corners");
    // LibTorch's kernels scale as align_corners says, but place the samples at half pixels.
    if (antialias && align_corners) call.fail("antialias with align_corners is not supported");
    const Attributes attributes{
        {"mode", mode},
        {"coordinate_transformation_mode", align_corners ? "align_corners" : "half_pixel"},
        {"cubic_coeff_a", antialias ? -0.5 : -0.75},
        {"antialias", int64_t{antialias}},
        {"exclude_outside", int64_t{antialias}}};
    const auto input = call.tensor(input_name(call));
    const auto resized = resized_dimensions(call);
    for (const auto& each : resized) {
      if (antialias && each.factor && !is_exact_in_float32(*each.factor))
        call.fail(fmt::format("with antialias, scale factors must be multiples of 1/16, found {}",
                              *each.factor));
    }
    if (resized.front().factor && !align_corners)
      return call.set_output(resize_by_factors(call, input, resized, attributes, mode == "linear"));
    const auto& from = call.sizes(input_name(call));
    std::vector<Value> sizes{call.shape({from[0], from[1]})};  // batch and channel dimension
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
    rules[std::string("_upsample_bilinear2d_aa") + overload] = interpolated("linear", true);
    rules[std::string("_upsample_bicubic2d_aa") + overload] = interpolated("cubic", true);
  }
}

}  // namespace attend::onnx
