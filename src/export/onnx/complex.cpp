#include "export/onnx/complex.h"

#include "export/onnx/functions.h"
#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <string>

namespace attend::onnx {

Complex parts_of(Call& call, Value value) {
  auto& graph = call.graph();
  const auto part = [&](int64_t i) {
    return graph.add("Gather", {value, graph.number(Type::int64, i)}, {{"axis", -1}});
  };
  return {part(0), part(1)};
}

Value joined(Call& call, const Complex& parts) {
  auto& graph = call.graph();
  const auto column = [&](Value part) { return graph.add("Unsqueeze", {part, graph.list({-1})}); };
  return graph.add("Concat", {column(parts.re), column(parts.im)}, {{"axis", -1}});
}

namespace {

/// Returns the parts of an argument that is a complex or real tensor or a number. The imaginary
/// part of the latter two is an empty Value.
Complex operand(Call& call, const char* name) {
  if (call.is_complex(name)) return parts_of(call, call.tensor(name));
  return {call.operand(name, call.result_type()), {}};
}

bool is_real(const Complex& number) {
  return number.im.id == 0;
}

/// Expands both parts to the same shape.
Complex broadcast(Call& call, const Complex& parts) {
  auto& graph = call.graph();
  const auto shape = graph.shape_of(graph.add("Add", {parts.re, parts.im}));
  return {graph.add("Expand", {parts.re, shape}), graph.add("Expand", {parts.im, shape})};
}

/// Returns the translation rule of add or sub; `kind` is the ONNX operator.
Rule sum_or_difference(const char* kind) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto one = operand(call, "self");
    auto other = operand(call, "other");
    other.re = call.times(other.re, "alpha");
    if (!is_real(other)) other.im = call.times(other.im, "alpha");
    const auto zero = graph.number(one.re.type, 0);
    const auto im = [&](const Complex& number) { return is_real(number) ? zero : number.im; };
    call.set_output(joined(call, broadcast(call, {graph.add(kind, {one.re, other.re}),
                                                  graph.add(kind, {im(one), im(other)})})));
  };
}

Complex product_of(Call& call, const Complex& one, const Complex& other) {
  auto& graph = call.graph();
  const auto times = [&](Value a, Value b) { return graph.add("Mul", {a, b}); };
  if (is_real(other)) return {times(one.re, other.re), times(one.im, other.re)};
  if (is_real(one)) return product_of(call, other, one);
  return {graph.add("Sub", {times(one.re, other.re), times(one.im, other.im)}),
          graph.add("Add", {times(one.re, other.im), times(one.im, other.re)})};
}

void multiply(Call& call) {
  call.set_output(joined(call, product_of(call, operand(call, "self"), operand(call, "other"))));
}

/// Translates the quotient as self * conj(other) / |other|^2.
void divide_complex(Call& call) {
  auto& graph = call.graph();
  const auto self = operand(call, "self");
  const auto other = operand(call, "other");
  if (is_real(other)) {
    return call.set_output(joined(
        call, {graph.add("Div", {self.re, other.re}), graph.add("Div", {self.im, other.re})}));
  }
  const auto numerator = product_of(call, {other.re, graph.add("Neg", {other.im})}, self);
  const auto square = graph.add(
      "Add", {graph.add("Mul", {other.re, other.re}), graph.add("Mul", {other.im, other.im})});
  call.set_output(joined(
      call, {graph.add("Div", {numerator.re, square}), graph.add("Div", {numerator.im, square})}));
}

void conjugate(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto signs = graph.constant({self.type, {2}, {1, -1}});
  call.set_output(graph.add("Mul", {self, signs}));
}

void magnitude(Call& call) {
  call.set_output(reduce(call, "ReduceL2", call.tensor("self"), {call.rank("self")}, false));
}

void angle(Call& call) {
  const auto self = parts_of(call, call.tensor("self"));
  call.set_output(atan2(call, self.im, self.re));
}

void real_part(Call& call) {
  call.set_output(parts_of(call, call.tensor("self")).re);
}

void imaginary_part(Call& call) {
  call.set_output(parts_of(call, call.tensor("self")).im);
}

void from_parts(Call& call) {
  const auto type = call.result_type();
  call.set_output(
      joined(call, broadcast(call, {call.operand("real", type), call.operand("imag", type)})));
}

void from_polar(Call& call) {
  auto& graph = call.graph();
  const auto type = call.result_type();
  const auto length = call.operand("abs", type);
  const auto angle = call.operand("angle", type);
  call.set_output(joined(call, {graph.add("Mul", {length, graph.add("Cos", {angle})}),
                                graph.add("Mul", {length, graph.add("Sin", {angle})})}));
}

/// Translates view_as_real, view_as_complex and operators that return `self`.
void same_value(Call& call) {
  call.set_output(call.tensor("self"));
}

void reshape_complex(Call& call) {
  const auto with_parts = [](Sizes sizes) {
    sizes.push_back({.value = 2});
    return sizes;
  };
  call.set_output(call.reshape(call.tensor("self"), with_parts(call.sizes("self")),
                               with_parts(call.result_sizes())));
}

void swap_complex(Call& call) {
  call.set_output(swap(call, call.tensor("self"), call.rank("self") + 1, call.dimension("dim0"),
                       call.dimension("dim1")));
}

void permute_complex(Call& call) {
  auto order = call.dimensions("dims");
  order.push_back(call.rank("self"));
  call.set_output(transpose(call, call.tensor("self"), order));
}

}  // namespace

void add_complex_rules(Rules& rules) {
  const auto add = [&](const std::string& name, const Rule& rule) {
    rules[kComplexPrefix + name] = rule;
  };
  add("view_as_real.default", same_value);
  add("view_as_complex.default", same_value);
  add("complex.default", from_parts);
  add("polar.default", from_polar);
  add("real.default", real_part);
  add("imag.default", imaginary_part);
  add("abs.default", magnitude);
  add("angle.default", angle);
  add("_conj.default", conjugate);
  for (const std::string overload : {".Tensor", ".Scalar"}) {
    add("add" + overload, sum_or_difference("Add"));
    add("sub" + overload, sum_or_difference("Sub"));
    add("mul" + overload, multiply);
    add("div" + overload, divide_complex);
  }
  for (const auto name : kReshapings) add(std::string(name), reshape_complex);
  add("transpose.int", swap_complex);
  add("permute.default", permute_complex);
  for (const auto* name : {"clone.default", "contiguous.default", "resolve_conj.default"})
    add(name, same_value);
  // The rules of these operators do not depend on the number of dimensions after those of the call.
  for (const auto* name : {"cat.default", "select.int", "slice.Tensor", "squeeze.dim",
                           "stack.default", "unsqueeze.default"}) {
    add(name, rules.at(name));
  }
}

}  // namespace attend::onnx
