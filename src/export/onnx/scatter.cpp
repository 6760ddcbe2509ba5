#include "export/onnx/functions.h"
#include "export/onnx/indexing.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"
#include "export/onnx/slices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attend::onnx {
namespace {

/// Returns the type to which inputs of type `type` are cast for ScatterElements and ScatterND. With
/// a reduction, 16-bit floating point types are cast to float32, since onnxruntime does not support
/// reductions in these types. Otherwise, returns `type`.
Type scattered_as(Type type, const std::string& reduction) {
  return reduction == "none" ? type : at_least_float32(type);
}

Value scattered(Call& call, Value self, Value index, Value updates, int64_t dimension,
                const std::string& reduction) {
  auto& graph = call.graph();
  const auto type = scattered_as(self.type, reduction);
  return graph.add("ScatterElements", {graph.cast(self, type), index, graph.cast(updates, type)},
                   {{"axis", dimension}, {"reduction", reduction}});
}

std::string reduction_of(Call& call) {
  if (!call.has("reduce")) return "none";
  const auto reduce = call.string("reduce");
  if (reduce == "add" || reduce == "sum") return "add";
  if (reduce == "multiply" || reduce == "prod") return "mul";
  if (reduce == "amax") return "max";
  if (reduce == "amin") return "min";
  call.fail("reduce must be add, multiply, sum, prod, amax or amin, found '" + reduce + "'");
}

/// Slices `source` to the shape of `index`, since LibTorch ignores the rest of `source`.
Value sliced_to_index(Call& call, Value source, Value index) {
  const auto& have = call.sizes("src");
  const auto& want = call.sizes("index");
  if (std::equal(have.begin(), have.end(), want.begin(), want.end(), same)) return source;
  auto& graph = call.graph();
  const std::vector<int64_t> start(have.size(), 0);
  const auto dimensions = graph.list(all_dimensions(call.rank("src")));
  return graph.add("Slice", {source, graph.list(start), graph.shape_of(index), dimensions});
}

void scatter_with(Call& call, const std::string& reduction) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  if (call.rank("self") == 0) call.fail("0-dimensional inputs are not supported");
  const auto index = call.operand("index", Type::int64);
  const auto updates =
      call.has("src")
          ? sliced_to_index(call, call.operand("src", self.type), index)
          : graph.add("Expand", {call.operand("value", self.type), graph.shape_of(index)});
  call.set_output(scattered(call, self, index, updates, call.dimension("dim"), reduction));
}

void scatter(Call& call) {
  scatter_with(call, reduction_of(call));
}

/// Returns `self` with the element `number` at each index of `index`.
Value filled_at(Call& call, Value self, Value index, int64_t dimension, const Number& number) {
  auto& graph = call.graph();
  const auto updates =
      graph.add("Expand", {graph.number(self.type, number), graph.shape_of(index)});
  return scattered(call, self, index, updates, dimension, "none");
}

/// Returns the number that does not change the result of a reduction.
Number neutral_element(const std::string& reduction, Type type) {
  if (reduction == "mul") return 1;
  if (reduction == "add") return 0;
  const auto extreme_of = [&](auto zero) -> Number {
    using Limits = std::numeric_limits<decltype(zero)>;
    return int64_t{reduction == "max" ? Limits::lowest() : Limits::max()};
  };
  switch (type) {
    case Type::uint8:
      return extreme_of(uint8_t{});
    case Type::int8:
      return extreme_of(int8_t{});
    case Type::int16:
      return extreme_of(int16_t{});
    case Type::int32:
      return extreme_of(int32_t{});
    case Type::int64:
      return extreme_of(int64_t{});
    default:
      return reduction == "max" ? -INFINITY : INFINITY;
  }
}

/// Translates scatter_reduce. Without `include_self`, the elements of `self` at the indices are
/// first replaced by the neutral element of the reduction.
void scatter_reduce(Call& call) {
  auto& graph = call.graph();
  auto self = call.tensor("self");
  if (call.rank("self") == 0) call.fail("0-dimensional inputs are not supported");
  const bool is_mean = call.string("reduce") == "mean";
  const auto reduction = is_mean ? "add" : reduction_of(call);
  const bool includes_self = call.boolean("include_self");
  const auto dimension = call.dimension("dim");
  const auto type = scattered_as(self.type, reduction);
  self = graph.cast(self, type);
  const auto index = call.operand("index", Type::int64);
  const auto updates = sliced_to_index(call, call.operand("src", type), index);
  const auto start =
      includes_self ? self
                    : filled_at(call, self, index, dimension, neutral_element(reduction, type));
  const auto found = scattered(call, start, index, updates, dimension, reduction);
  if (!is_mean) return call.set_output(found);
  // `counts` is the number of elements in each mean. Elements of `self` to which no index refers
  // are divided by 1.
  const auto one = graph.number(type, 1);
  auto counts = graph.add("Expand", {one, graph.shape_of(self)});
  if (!includes_self) counts = filled_at(call, counts, index, dimension, 0);
  const auto ones = graph.add("Expand", {one, graph.shape_of(index)});
  counts = scattered(call, counts, index, ones, dimension, "add");
  call.set_output(is_floating_point(type) ? graph.add("Div", {found, counts})
                                          : floor_divided(call, found, counts));
}

void scatter_add(Call& call) {
  scatter_with(call, "add");
}

/// Expands `index` (n) to the shape of `source`: the n elements lie along `dimension` and are
/// repeated along the other dimensions.
Value expand_index(Call& call, Value index, Value source, int64_t dimension) {
  auto& graph = call.graph();
  const auto around = along(call, index, dimension, call.rank("self"));
  return graph.add("Expand", {around, graph.shape_of(source)});
}

void index_add(Call& call) {
  const auto self = call.tensor("self");
  const auto dimension = call.dimension("dim");
  const auto source = call.times(call.operand("source", self.type), "alpha");
  const auto index = expand_index(call, call.operand("index", Type::int64), source, dimension);
  call.set_output(scattered(call, self, index, source, dimension, "add"));
}

void index_copy(Call& call) {
  const auto self = call.tensor("self");
  const auto dimension = call.dimension("dim");
  const auto source = call.operand("source", self.type);
  const auto index = expand_index(call, call.operand("index", Type::int64), source, dimension);
  call.set_output(scattered(call, self, index, source, dimension, "none"));
}

void index_fill(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto dimension = call.dimension("dim");
  auto sizes = call.sizes("self");
  sizes.at(static_cast<std::size_t>(dimension)) = call.sizes("index").at(0);
  const auto updates = graph.add("Expand", {call.operand("value", self.type), call.shape(sizes)});
  const auto index = expand_index(call, call.operand("index", Type::int64), updates, dimension);
  call.set_output(scattered(call, self, index, updates, dimension, "none"));
}

void index_put(Call& call) {
  auto& graph = call.graph();
  const auto read = read_indices(call);
  auto self = call.tensor("self");
  const bool sorted = std::is_sorted(read.order.begin(), read.order.end());
  if (!sorted) self = transpose(call, self, read.order);
  // The values are expanded to the shape of the elements that they replace.
  auto values = call.operand("values", self.type);
  const auto before = read.order.front();
  auto rest = graph.shape_of(self);
  rest = slice(call, rest, 0, static_cast<int64_t>(read.indexed), kEnd);
  const auto index_shape = slice(call, graph.shape_of(read.indices), 0, 0, -1);
  if (read.is_adjacent && before > 0) {
    // LibTorch's values have the shape (before..., index..., after...). ScatterND expects the shape
    // (index..., before..., after...).
    const auto leading = slice(call, rest, 0, 0, before);
    const auto trailing = slice(call, rest, 0, before, kEnd);
    const auto shape = graph.add("Concat", {leading, index_shape, trailing}, {{"axis", 0}});
    values = graph.add("Expand", {values, shape});
    const auto rank = read.rank + call.rank("self") - static_cast<int64_t>(read.indexed);
    auto order = all_dimensions(rank);
    std::rotate(order.begin(), order.begin() + before, order.begin() + before + read.rank);
    values = transpose(call, values, order);
  } else {
    const auto shape = graph.add("Concat", {index_shape, rest}, {{"axis", 0}});
    values = graph.add("Expand", {values, shape});
  }
  const std::string reduction = call.boolean("accumulate") ? "add" : "none";
  const auto type = scattered_as(self.type, reduction);
  auto result =
      graph.add("ScatterND", {graph.cast(self, type), read.indices, graph.cast(values, type)},
                {{"reduction", reduction}});
  if (!sorted) {
    std::vector<int64_t> back(read.order.size());
    for (std::size_t i = 0; i < back.size(); ++i) {
      back.at(static_cast<std::size_t>(read.order[i])) = static_cast<int64_t>(i);
    }
    result = transpose(call, result, back);
  }
  call.set_output(result);
}

void select_scatter(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto dimension = call.dimension("dim");
  const auto source = unsqueeze(call, call.operand("src", self.type), {dimension});
  const auto index = graph.add("Expand", {call.integers_value("index"), graph.shape_of(source)});
  call.set_output(scattered(call, self, index, source, dimension, "none"));
}

void slice_scatter(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto dimension = call.dimension("dim");
  const auto source = call.operand("src", self.type);
  const auto& size = call.sizes("self").at(static_cast<std::size_t>(dimension));
  const auto length = squeeze(call, call.size(size), {0});
  const auto all =
      graph.add("Range", {graph.number(Type::int64, 0), length, graph.number(Type::int64, 1)});
  const auto positions = slice_as_called(call, all, 0);
  call.set_output(scattered(call, self, expand_index(call, positions, source, dimension), source,
                            dimension, "none"));
}

}  // namespace

void add_scatter_rules(Rules& rules) {
  rules["scatter.src"] = rules["scatter.value"] = rules["scatter.reduce"] =
      rules["scatter.value_reduce"] = scatter;
  rules["scatter_add.default"] = scatter_add;
  rules["scatter_reduce.two"] = scatter_reduce;
  rules["index_add.default"] = index_add;
  rules["index_copy.default"] = index_copy;
  rules["index_fill.int_Scalar"] = rules["index_fill.int_Tensor"] = index_fill;
  rules["index_put.default"] = index_put;
  rules["select_scatter.default"] = select_scatter;
  rules["slice_scatter.default"] = slice_scatter;
}

}  // namespace attend::onnx
