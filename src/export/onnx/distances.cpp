#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <string>

namespace attend::onnx {
namespace {

/// Translates cdist: the norms of the differences of each row of x1 and each row of x2.
void cdist(Call& call) {
  auto& graph = call.graph();
  const auto type = call.result_type();
  const auto rank = call.result_rank();
  const auto rows = unsqueeze(call, call.operand("x1", type), {call.rank("x1") - 1});
  const auto columns = unsqueeze(call, call.operand("x2", type), {call.rank("x2") - 2});
  const auto differences = graph.add("Sub", {rows, columns});  // (..., P, R, M)
  call.set_output(norm_of(call, differences, call.real("p"), {rank}, false));
}

/// Translates pairwise_distance: the norm of x1 - x2 + eps over the last dimension.
void pairwise_distance(Call& call) {
  auto& graph = call.graph();
  const auto type = call.result_type();
  const auto rank = std::max(call.rank("x1"), call.rank("x2"));
  const auto difference = graph.add("Sub", {call.operand("x1", type), call.operand("x2", type)});
  const auto shifted = graph.add("Add", {difference, graph.number(type, call.real("eps"))});
  call.set_output(norm_of(call, shifted, call.real("p"), {rank - 1}, call.boolean("keepdim")));
}

/// Translates cosine_similarity: sum(x1 / max(|x1|, eps) * x2 / max(|x2|, eps)). Here |x| is the
/// L2 norm of x along the dimension `dim`.
void cosine_similarity(Call& call) {
  auto& graph = call.graph();
  const auto type = call.result_type();
  const auto dimension = c10::maybe_wrap_dim(call.integer("dim"), call.result_rank() + 1);
  if (call.rank("x1") != call.rank("x2"))
    call.fail("expected inputs with the same number of dimensions, found " +
              std::to_string(call.rank("x1")) + " and " + std::to_string(call.rank("x2")));
  std::vector<Value> units;
  for (const auto* name : {"x1", "x2"}) {
    const auto x = call.operand(name, type);
    const auto length = norm_of(call, x, 2.0, {dimension}, true);
    const auto eps = graph.number(type, call.number("eps"));
    units.push_back(graph.add("Div", {x, graph.add("Max", {length, eps})}));
  }
  call.set_output(reduce(call, "ReduceSum", graph.add("Mul", units), {dimension}, false));
}

}  // namespace

void add_distance_rules(Rules& rules) {
  rules["cdist.default"] = cdist;
  rules["pairwise_distance.default"] = pairwise_distance;
  rules["cosine_similarity.default"] = cosine_similarity;
}

}  // namespace attend::onnx
