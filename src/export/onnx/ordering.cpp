#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

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
  const auto found = top(call, call.graph().list({call.integer("k")}), call.boolean("largest"));
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
  rules["bucketize.Tensor"] = bucketize;
}

}  // namespace attend::onnx
