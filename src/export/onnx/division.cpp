#include "export/onnx/functions.h"
#include "export/onnx/rules.h"

namespace attend::onnx {
namespace {

struct Operands {
  Value a;
  Value b;
};

/// Returns the arguments `self` and `other`, cast to the type in which LibTorch computes
/// floor_divide, remainder, fmod and div with a `rounding_mode`.
Operands operands(Call& call) {
  const auto type = at_least_float32(call.result_type());
  return {call.operand("self", type), call.operand("other", type)};
}

/// Returns a - b * trunc(a / b), which has the sign of the dividend `a`.
Value fmod_of(Call& call, const Operands& of) {
  auto& graph = call.graph();
  if (is_floating_point(of.a.type)) return graph.add("Mod", {of.a, of.b}, {{"fmod", 1}});
  // Mod with fmod = 1 computes in floating point, which is inexact for int64.
  return graph.add("Sub", {of.a, graph.add("Mul", {graph.add("Div", {of.a, of.b}), of.b})});
}

/// Returns true where a floating point remainder is not 0 and its sign differs from the sign of the
/// divisor.
Value has_other_sign(Call& call, Value remainder, Value divisor) {
  auto& graph = call.graph();
  const auto zero = graph.number(remainder.type, 0);
  const auto is_zero = graph.compare("Equal", remainder, zero);
  const auto differs = graph.add(
      "Xor", {graph.compare("Less", remainder, zero), graph.compare("Less", divisor, zero)});
  return graph.add("And", {graph.add("Not", {is_zero}), differs});
}

/// Returns the remainder that has the sign of the divisor, as Python's `%` does.
Value modulo(Call& call, const Operands& of) {
  auto& graph = call.graph();
  if (!is_floating_point(of.a.type)) return graph.add("Mod", {of.a, of.b});
  const auto remainder = fmod_of(call, of);
  return graph.where(has_other_sign(call, remainder, of.b), graph.add("Add", {remainder, of.b}),
                     remainder);
}

/// Returns floor(a / b) of floating point numbers. The result is computed from the remainder, since
/// the division a / b may round up to an integer. Example: the floating point number 0.1 is larger
/// than 1/10, so the exact quotient 1 / 0.1 is less than 10 and its floor is 9; the division rounds
/// the quotient to 10.
Value floor_divide_float(Call& call, const Operands& of) {
  auto& graph = call.graph();
  const auto number = [&](double value) { return graph.number(of.a.type, value); };
  const auto remainder = fmod_of(call, of);
  const auto whole = graph.add("Div", {graph.add("Sub", {of.a, remainder}), of.b});
  const auto below = graph.where(has_other_sign(call, remainder, of.b),
                                 graph.add("Sub", {whole, number(1)}), whole);
  // Except for rounding errors, `below` is an integer. It is rounded to the nearest integer.
  const auto floor = graph.add("Floor", {below});
  const auto fraction = graph.add("Sub", {below, floor});
  const auto rounded = graph.where(graph.compare("Greater", fraction, number(0.5)),
                                   graph.add("Add", {floor, number(1)}), floor);
  // A result of zero must have the sign of the quotient. Division by zero must return the quotient,
  // which is infinite or NaN. onnxruntime drops the sign of zeros in the second input of Where, so
  // `zero`, the zero with the sign of the quotient, is the third input.
  const auto quotient = graph.add("Div", {of.a, of.b});
  const auto zero = graph.add("Mul", {quotient, number(0)});
  const auto is_more = graph.compare("Greater", graph.add("Abs", {below}), number(0));
  const auto with_zeros = graph.where(is_more, rounded, zero);
  return graph.where(graph.compare("Equal", of.b, number(0)), quotient, with_zeros);
}

Value floor_divide_of(Call& call, const Operands& of) {
  if (is_floating_point(of.a.type)) return floor_divide_float(call, of);
  return floor_divided(call, of.a, of.b);
}

void divide(Call& call) {
  auto& graph = call.graph();
  if (!call.has("rounding_mode")) {
    const auto type = call.arithmetic_type({"self", "other"});
    return call.set_output(
        graph.add("Div", {call.operand("self", type), call.operand("other", type)}));
  }
  const auto of = operands(call);
  if (call.string("rounding_mode") == "floor") return call.set_output(floor_divide_of(call, of));
  const auto quotient = graph.add("Div", {of.a, of.b});
  call.set_output(is_floating_point(quotient.type) ? truncated(call, quotient) : quotient);
}

void floor_divide(Call& call) {
  call.set_output(floor_divide_of(call, operands(call)));
}

void remainder_rule(Call& call) {
  call.set_output(modulo(call, operands(call)));
}

void fmod_rule(Call& call) {
  call.set_output(fmod_of(call, operands(call)));
}

}  // namespace

void add_division_rules(Rules& rules) {
  for (const auto* overload : {"Tensor", "Scalar"}) {
    const auto named = [&](const char* name) { return std::string(name) + "." + overload; };
    rules[named("div")] = divide;
    rules[named("fmod")] = fmod_rule;
    rules[named("remainder")] = remainder_rule;
  }
  rules["div.Tensor_mode"] = rules["div.Scalar_mode"] = divide;
  rules["floor_divide.default"] = rules["floor_divide.Scalar"] = floor_divide;
  rules["remainder.Scalar_Tensor"] = remainder_rule;
}

}  // namespace attend::onnx
