#include "export/onnx/extremes.h"

#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"

#include <cmath>

namespace attend::onnx {
namespace {

/// Where a value is NaN, as numbers; nothing if whole numbers never are.
Value nans_in(Call& call, Value value) {
  if (!is_real(value.type)) return {};
  auto& graph = call.graph();
  return graph.cast(graph.add("IsNaN", {value}, {}, Type::boolean), Type::int32);
}

}  // namespace

Value reduce_to_extreme(Call& call, const char* kind, Value value,
                        const std::vector<int64_t>& dimensions, bool keep) {
  auto& graph = call.graph();
  const auto extreme = reduce(call, kind, value, dimensions, keep);
  const auto nans = nans_in(call, value);
  if (nans.id == 0 || dimensions.empty()) return extreme;
  const auto some = graph.cast(reduce(call, "ReduceMax", nans, dimensions, keep), Type::boolean);
  return graph.choose(some, graph.number(value.type, NAN), extreme);
}

namespace {

Rule extreme_of(const char* kind) {
  return [=](Call& call) {
    const auto value = call.operand("self", call.result_type());
    call.give(reduce_to_extreme(call, kind, value, reduced(call), keeps(call)));
  };
}

/// The place of the extreme value along a dimension, or of the first NaN.
Value place_of(Call& call, const char* kind, Value value, int64_t dimension, bool keep) {
  auto& graph = call.graph();
  const auto find = [&](const char* which, Value among) {
    return graph.add(which, {among}, {{"axis", dimension}, {"keepdims", int64_t{keep}}},
                     Type::int64);
  };
  const auto place = find(kind, value);
  const auto nans = nans_in(call, value);
  if (nans.id == 0) return place;
  const auto some = graph.cast(reduce(call, "ReduceMax", nans, {dimension}, keep), Type::boolean);
  return graph.choose(some, find("ArgMax", nans), place);
}

/// The extreme value along a dimension, and its place.
Rule extreme(const char* kind, const char* place) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto self = call.operand("self", call.result_type());
    if (call.rank("self") == 0) {
      call.give(self);
      return call.give(graph.number(Type::int64, 0), 1);
    }
    const auto dimension = call.dimension("dim");
    call.give(reduce_to_extreme(call, kind, self, {dimension}, keeps(call)));
    call.give(place_of(call, place, self, dimension, keeps(call)), 1);
  };
}

Rule place(const char* kind) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto self = call.tensor("self");
    if (call.rank("self") == 0) return call.give(graph.number(Type::int64, 0));
    if (call.has("dim")) {
      return call.give(place_of(call, kind, self, call.dimension("dim"), keeps(call)));
    }
    const auto flat = graph.add("Reshape", {self, graph.list({-1})});
    const auto found = place_of(call, kind, flat, 0, false);
    call.give(call.reshape(found, {}, call.result_sizes()));
  };
}

}  // namespace

void add_extreme_rules(Rules& rules) {
  rules["amax.default"] = rules["max.default"] = extreme_of("ReduceMax");
  rules["amin.default"] = rules["min.default"] = extreme_of("ReduceMin");
  rules["max.dim"] = extreme("ReduceMax", "ArgMax");
  rules["min.dim"] = extreme("ReduceMin", "ArgMin");
  rules["argmax.default"] = place("ArgMax");
  rules["argmin.default"] = place("ArgMin");
}

}  // namespace attend::onnx
