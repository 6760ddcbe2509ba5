#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <algorithm>

namespace attend::onnx {
namespace {

void linear(Call& call) {
  auto& graph = call.graph();
  const auto input = call.tensor("input");
  const auto weight = call.tensor("weight");  // (out, in)
  const auto bias = call.optional_tensor("bias");
  if (call.rank("weight") == 2 && call.rank("input") == 2 && is_real(input.type)) {
    std::vector<Value> inputs{input, weight};
    if (bias.id != 0) inputs.push_back(bias);
    return call.give(graph.add("Gemm", inputs, {{"transB", 1}}));
  }
  const auto turned = call.rank("weight") < 2 ? weight : transpose(call, weight, {1, 0});
  const auto product = graph.add("MatMul", {input, turned});
  call.give(bias.id == 0 ? product : graph.add("Add", {product, bias}));
}

/// The product of two arguments, as MatMul, which knows all their ranks.
Rule product(const char* one, const char* other) {
  return [=](Call& call) {
    const auto type = call.result_type();
    call.give(call.graph().add("MatMul", {call.operand(one, type), call.operand(other, type)}));
  };
}

/// beta * self + alpha * (one times other)
Rule add_product(const char* one, const char* other) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto type = call.result_type();
    const auto product = call.times(
        graph.add("MatMul", {call.operand(one, type), call.operand(other, type)}), "alpha");
    // Then what self holds does not count, be it NaN.
    if (call.number("beta").real == 0.0) return call.give(product);
    call.give(graph.add("Add", {call.times(call.operand("self", type), "beta"), product}));
  };
}

Rule outer(const char* other) {
  return [=](Call& call) {
    const auto column = unsqueeze(call, call.operand("self", call.result_type()), {1});
    call.give(call.graph().add("Mul", {column, call.operand(other, call.result_type())}));
  };
}

void einsum(Call& call) {
  auto equation = call.text("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  call.give(call.graph().add("Einsum", call.tensors("tensors"), {{"equation", equation}}));
}

/// The last dimensions are multiplied and summed.
void inner(Call& call) {
  const auto type = call.result_type();
  const auto rank = call.rank("other");
  if (rank > 2 || call.rank("self") == 0 || rank == 0) call.refuse("its inputs have such ranks");
  auto other = call.operand("other", type);
  if (rank == 2) other = transpose(call, other, {1, 0});
  call.give(call.graph().add("MatMul", {call.operand("self", type), other}));
}

/// The product of vectors of length 1, or of length eps if they are shorter than that.
void cosine_similarity(Call& call) {
  auto& graph = call.graph();
  const auto type = call.result_type();
  const auto given = call.integer("dim");
  const auto dimension = given < 0 ? given + call.result_rank() + 1 : given;
  if (call.rank("x1") != call.rank("x2")) call.refuse("its inputs have different ranks");
  std::vector<Value> units;
  for (const auto* name : {"x1", "x2"}) {
    const auto x = call.operand(name, type);
    const auto length = reduce(call, "ReduceL2", x, {dimension}, true);
    const auto least = graph.number(type, call.number("eps"));
    units.push_back(graph.add("Div", {x, graph.add("Max", {length, least})}));
  }
  call.give(reduce(call, "ReduceSum", graph.add("Mul", units), {dimension}, false));
}

}  // namespace

void add_linear_rules(Rules& rules) {
  rules["linear.default"] = linear;
  rules["matmul.default"] = product("self", "other");
  rules["mm.default"] = rules["bmm.default"] = product("self", "mat2");
  rules["mv.default"] = product("self", "vec");
  rules["dot.default"] = product("self", "tensor");
  rules["addmm.default"] = add_product("mat1", "mat2");
  rules["baddbmm.default"] = add_product("batch1", "batch2");
  rules["addmv.default"] = add_product("mat", "vec");
  rules["outer.default"] = outer("vec2");
  rules["einsum.default"] = einsum;
  rules["inner.default"] = inner;
  rules["cosine_similarity.default"] = cosine_similarity;
}

}  // namespace attend::onnx
