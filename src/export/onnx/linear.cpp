#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

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

/// Translates tensordot to an einsum. The summed dimensions have the same letters in both terms.
void tensordot(Call& call) {
  const auto type = call.result_type();
  const auto dims_self = call.dimensions("dims_self", "self");
  const auto dims_other = call.dimensions("dims_other", "other");
  if (call.rank("self") + call.rank("other") > 26) call.fail("the inputs have too many dimensions");
  auto next = 'a';
  const auto letters_of = [&](int64_t rank) {
    std::string letters;
    for (int64_t i = 0; i < rank; ++i) letters += next++;
    return letters;
  };
  const auto self = letters_of(call.rank("self"));
  auto other = letters_of(call.rank("other"));
  auto result = self + other;
  for (std::size_t i = 0; i < dims_self.size(); ++i) {
    const auto at_self = static_cast<std::size_t>(dims_self[i]);
    const auto at_other = static_cast<std::size_t>(dims_other[i]);
    if (!same(call.sizes("self").at(at_self), call.sizes("other").at(at_other)))
      call.fail("the dimensions that are summed must have the same size");
    std::erase(result, self[at_self]);
    std::erase(result, other[at_other]);
    other[at_other] = self[at_self];
  }
  call.set_output(call.graph().add("Einsum",
                                   {call.operand("self", type), call.operand("other", type)},
                                   {{"equation", self + "," + other + "->" + result}}));
}

/// Translates bilinear: input1 W_k input2 for each matrix W_k of `weight` (out, in1, in2).
void bilinear(Call& call) {
  auto& graph = call.graph();
  const auto rank = call.rank("input1");
  const auto left = unsqueeze(call, call.tensor("input1"), {rank - 1, rank});  // (..., 1, 1, in1)
  const auto right =
      unsqueeze(call, call.tensor("input2"), {rank - 1, rank + 1});   // (..., 1, in2, 1)
  auto product = graph.add("MatMul", {left, call.tensor("weight")});  // (..., out, 1, in2)
  product = squeeze(call, graph.add("MatMul", {product, right}), {rank, rank + 1});
  const auto bias = call.optional_tensor("bias");
  call.set_output(bias.id == 0 ? product : graph.add("Add", {product, bias}));
}

void determinant(Call& call) {
  call.set_output(call.graph().add("Det", {call.tensor("A")}));
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
  rules["tensordot.default"] = tensordot;
  rules["bilinear.default"] = bilinear;
  rules["linalg_det.default"] = determinant;
}

}  // namespace attend::onnx
