#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <cmath>

namespace attend::onnx {
namespace {

/// Returns the `k` largest or smallest elements along `dim`, and their indices.
std::vector<Value> top(Call& call, Value k, bool largest) {
  const auto self = call.tensor("self");
  return call.graph().add(
      "TopK", {self, k},
      {{"axis", call.dimension("dim")}, {"largest", int64_t{largest}}, {"sorted", 1}},
      std::vector<Type>{self.type, Type::int64});
}

void topk(Call& call) {
  const auto found = top(call, call.integers_value("k"), call.boolean("largest"));
  call.set_output(found[0]);
  call.set_output(found[1], 1);
}

std::vector<Value> sorted(Call& call) {
  const auto& size = call.sizes("self").at(static_cast<std::size_t>(call.dimension("dim")));
  return top(call, call.size(size), call.boolean("descending"));
}

void sort(Call& call) {
  const auto found = sorted(call);
  call.set_output(found[0]);
  call.set_output(found[1], 1);
}

void argsort(Call& call) {
  call.set_output(sorted(call)[1]);
}

/// Sets the outputs to the medians of `self` along `dimension`, and to their indices if the call
/// returns them. The median of an even number of elements is the smaller one of the two in the
/// middle. With `ignores_nan`, NaN do not count; otherwise the median with a NaN is NaN.
void set_median(Call& call, Value self, int64_t dimension, int64_t rank, bool keep,
                bool ignores_nan) {
  auto& graph = call.graph();
  const auto number = [&](int64_t value) { return graph.number(Type::int64, value); };
  const bool may_be_nan = is_floating_point(self.type);
  // TopK does not define the order of NaN, so NaN become infinite, the last elements.
  Value is_nan, num_nan;
  auto numbers = self;
  if (may_be_nan) {
    is_nan = graph.add("IsNaN", {self}, {}, Type::boolean);
    num_nan = reduce(call, "ReduceSum", graph.cast(is_nan, Type::int64), {dimension}, true);
    numbers = graph.where(is_nan, graph.number(self.type, INFINITY), self);
  }
  const auto size =
      graph.add("Shape", {self}, {{"start", dimension}, {"end", dimension + 1}}, Type::int64);
  const auto sorted =
      graph.add("TopK", {numbers, size}, {{"axis", dimension}, {"largest", 0}, {"sorted", 1}},
                std::vector<Type>{self.type, Type::int64});
  auto count = size;  // of the elements that count, per median
  if (ignores_nan && may_be_nan) count = graph.add("Sub", {size, num_nan});
  auto middle = graph.add("Div", {graph.add("Sub", {count, number(1)}), number(2)});
  // One index per median: `middle` is expanded to the shape of a reduced tensor.
  auto shape = graph.shape_of(self);
  shape = graph.add("ScatterElements", {shape, graph.list({dimension}), graph.list({1})});
  middle = graph.add("Expand", {graph.add("Max", {middle, number(0)}), shape});
  const auto at_middle = [&](Value all) {
    return graph.add("GatherElements", {all, middle}, {{"axis", dimension}});
  };
  auto values = at_middle(sorted[0]);
  auto indices = at_middle(sorted[1]);
  if (may_be_nan) {
    const auto zero = number(0);
    const auto gives_nan =
        ignores_nan ? graph.compare("Equal", count, zero) : graph.compare("Greater", num_nan, zero);
    values = graph.where(gives_nan, graph.number(self.type, NAN), values);
    const auto first_nan = graph.add("ArgMax", {graph.cast(is_nan, Type::int32)},
                                     {{"axis", dimension}, {"keepdims", 1}}, Type::int64);
    indices = graph.where(gives_nan, first_nan, indices);
  }
  const auto with_rank = [&](Value value) {
    return keep || rank == 0 ? value : squeeze(call, value, {dimension});
  };
  call.set_output(with_rank(values));
  if (call.num_outputs() > 1) call.set_output(with_rank(indices), 1);
}

Rule median(bool ignores_nan) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto self = call.tensor("self");
    if (call.has("dim") && call.rank("self") > 0) {
      return set_median(call, self, call.dimension("dim"), call.rank("self"), keepdim(call),
                        ignores_nan);
    }
    if (call.has("dim")) {
      call.set_output(self);
      return call.set_output(graph.number(Type::int64, 0), 1);
    }
    set_median(call, graph.add("Reshape", {self, graph.list({-1})}), 0, 1, false, ignores_nan);
  };
}

/// Translates operators that return the unique elements in ascending order and, if the call asks
/// for them, the index of the unique element of each element of `self` and the number of
/// occurrences. With the argument `dim`, the elements are the slices along this dimension.
void unique(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  Attributes attributes{{"sorted", 1}};
  if (call.has("dim")) attributes["axis"] = call.dimension("dim");
  const auto found = graph.add("Unique", {self}, attributes,
                               std::vector<Type>{self.type, Type::int64, Type::int64, Type::int64});
  call.set_output(found[0]);
  if (call.boolean("return_inverse")) {
    const auto inverse =
        call.has("dim") ? found[2] : graph.add("Reshape", {found[2], graph.shape_of(self)});
    call.set_output(inverse, 1);
  }
  if (call.boolean("return_counts")) call.set_output(found[3], 2);
}

/// Translates bucketize. For each element of `self`, the result is the number of boundaries that
/// are less than the element or, if `right` is set, less than or equal to it. For NaN, the result
/// is the number of all boundaries, as in LibTorch.
void bucketize(Call& call) {
  auto& graph = call.graph();
  const auto type = call.common_type("self", "boundaries");
  const auto self = unsqueeze(call, call.operand("self", type), {call.rank("self")});
  const auto* kind = call.boolean("right") ? "Greater" : "GreaterOrEqual";
  const auto above = graph.compare(kind, call.operand("boundaries", type), self);
  const auto below = graph.add("Not", {above});
  call.set_output(
      reduce(call, "ReduceSum", graph.cast(below, Type::int64), {call.rank("self")}, false));
}

}  // namespace

void add_ordering_rules(Rules& rules) {
  rules["topk.default"] = topk;
  rules["sort.default"] = rules["sort.stable"] = sort;
  rules["argsort.default"] = rules["argsort.stable"] = argsort;
  rules["median.default"] = rules["median.dim"] = median(/*ignores_nan=*/false);
  rules["nanmedian.default"] = rules["nanmedian.dim"] = median(/*ignores_nan=*/true);
  rules["_unique2.default"] = rules["unique_dim.default"] = unique;
  rules["bucketize.Tensor"] = bucketize;
}

}  // namespace attend::onnx
