#include "export/onnx/min_max.h"

#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"

#include <cmath>

namespace attend::onnx {
namespace {

/// Returns an int32 tensor that is 1 where `value` is NaN, and 0 elsewhere. Returns an empty Value
/// if the type of `value` is not a floating point type.
Value nan_mask(Call& call, Value value) {
  if (!is_floating_point(value.type)) return {};
  auto& graph = call.graph();
  return graph.cast(graph.add("IsNaN", {value}, {}, Type::boolean), Type::int32);
}

}  // namespace

Value reduce_min_max(Call& call, const char* kind, Value value,
                     const std::vector<int64_t>& dimensions, bool keep) {
  auto& graph = call.graph();
  const auto result = reduce(call, kind, value, dimensions, keep);
  const auto nan = nan_mask(call, value);
  if (nan.id == 0 || dimensions.empty()) return result;
  const auto some = graph.cast(reduce(call, "ReduceMax", nan, dimensions, keep), Type::boolean);
  return graph.where(some, graph.number(value.type, NAN), result);
}

namespace {

Rule min_max(const char* kind) {
  return [=](Call& call) {
    const auto value = call.operand("self", call.result_type());
    call.set_output(reduce_min_max(call, kind, value, reduced_dimensions(call), keepdim(call)));
  };
}

/// Returns the index of the minimum or maximum along a dimension or, if the dimension contains NaN,
/// the index of the first NaN.
Value arg_min_max_of(Call& call, const char* kind, Value value, int64_t dimension, bool keep) {
  auto& graph = call.graph();
  const auto find = [&](const char* which, Value among) {
    return graph.add(which, {among}, {{"axis", dimension}, {"keepdims", int64_t{keep}}},
                     Type::int64);
  };
  const auto index = find(kind, value);
  const auto nan = nan_mask(call, value);
  if (nan.id == 0) return index;
  const auto some = graph.cast(reduce(call, "ReduceMax", nan, {dimension}, keep), Type::boolean);
  return graph.where(some, find("ArgMax", nan), index);
}

/// Returns the translation rule of max.dim or min.dim. These operators return two tensors: the
/// maxima or minima along a dimension, and the indices of these elements.
Rule min_max_along_dim(const char* kind, const char* arg_kind) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto self = call.operand("self", call.result_type());
    if (call.rank("self") == 0) {
      call.set_output(self);
      return call.set_output(graph.number(Type::int64, 0), 1);
    }
    const auto dimension = call.dimension("dim");
    call.set_output(reduce_min_max(call, kind, self, {dimension}, keepdim(call)));
    call.set_output(arg_min_max_of(call, arg_kind, self, dimension, keepdim(call)), 1);
  };
}

Rule arg_min_max(const char* kind) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto self = call.tensor("self");
    if (call.rank("self") == 0) return call.set_output(graph.number(Type::int64, 0));
    if (call.has("dim")) {
      return call.set_output(
          arg_min_max_of(call, kind, self, call.dimension("dim"), keepdim(call)));
    }
    const auto flat = graph.add("Reshape", {self, graph.list({-1})});
    const auto found = arg_min_max_of(call, kind, flat, 0, false);
    call.set_output(call.reshape(found, {}, call.result_sizes()));
  };
}

}  // namespace

void add_min_max_rules(Rules& rules) {
  rules["amax.default"] = rules["max.default"] = min_max("ReduceMax");
  rules["amin.default"] = rules["min.default"] = min_max("ReduceMin");
  rules["max.dim"] = min_max_along_dim("ReduceMax", "ArgMax");
  rules["min.dim"] = min_max_along_dim("ReduceMin", "ArgMin");
  rules["argmax.default"] = arg_min_max("ArgMax");
  rules["argmin.default"] = arg_min_max("ArgMin");
}

}  // namespace attend::onnx
