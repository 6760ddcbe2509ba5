#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <string>

namespace attend::onnx {
namespace {

void linear(Call& call) {
  auto& graph = call.graph();
  const auto input = call.tensor("input");
  const auto weight = call.tensor("weight");  // (out, in)
  const auto bias = call.optional_tensor("bias");
  if (call.rank("weight") == 2 && call.rank("input") == 2 && is_floating_point(input.type)) {
    std::vector<Value> inputs{input, weight};
    if (bias.id != 0) inputs.push_back(bias);
    return call.set_output(graph.add("Gemm", inputs, {{"transB", 1}}));
  }
  const auto transposed = call.rank("weight") < 2 ? weight : transpose(call, weight, {1, 0});
  const auto product = graph.add("MatMul", {input, transposed});
  call.set_output(bias.id == 0 ? product : graph.add("Add", {product, bias}));
}

/// Returns the translation rule of the matrix product (one @ other), where `one` and `other` are
/// names of arguments.
Rule product(const char* one, const char* other) {
  return [=](Call& call) {
    const auto type = call.result_type();
    call.set_output(
        call.graph().add("MatMul", {call.operand(one, type), call.operand(other, type)}));
  };
}

/// Returns the translation rule of beta * self + alpha * (one @ other), where `one` and `other` are
/// names of arguments.
Rule add_product(const char* one, const char* other) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto type = call.result_type();
    const auto product = call.times(
        graph.add("MatMul", {call.operand(one, type), call.operand(other, type)}), "alpha");
    // With beta = 0, LibTorch ignores self, even if self is NaN.
    if (call.number("beta").real == 0.0) return call.set_output(product);
    call.set_output(graph.add("Add", {call.times(call.operand("self", type), "beta"), product}));
  };
}

Rule outer(const char* other) {
  return [=](Call& call) {
    const auto column = unsqueeze(call, call.operand("self", call.result_type()), {1});
    call.set_output(call.graph().add("Mul", {column, call.operand(other, call.result_type())}));
  };
}

void einsum(Call& call) {
  auto equation = call.string("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  call.set_output(call.graph().add("Einsum", call.tensors("tensors"), {{"equation", equation}}));
}

void inner(Call& call) {
  const auto type = call.result_type();
  const auto rank = call.rank("other");
  if (rank > 2 || call.rank("self") == 0 || rank == 0)
    call.fail("self must have at least 1 dimension, and other must have 1 or 2, found " +
              std::to_string(call.rank("self")) + " and " + std::to_string(rank));
  auto other = call.operand("other", type);
  if (rank == 2) other = transpose(call, other, {1, 0});
  call.set_output(call.graph().add("MatMul", {call.operand("self", type), other}));
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
    const auto length = reduce(call, "ReduceL2", x, {dimension}, true);
    const auto eps = graph.number(type, call.number("eps"));
    units.push_back(graph.add("Div", {x, graph.add("Max", {length, eps})}));
  }
  call.set_output(reduce(call, "ReduceSum", graph.add("Mul", units), {dimension}, false));
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
