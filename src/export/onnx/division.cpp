#include "export/onnx/functions.h"
#include "export/onnx/rules.h"

namespace attend::onnx {
namespace {

struct Operands {
  Value a;
  Value b;
};

/// Those of a division that is rounded, as LibTorch computes with them.
Operands operands(Call& call) {
  const auto type = at_least_float32(call.result_type());
  return {call.operand("self", type), call.operand("other", type)};
}

/// a - b * trunc(a / b), which has the sign of the dividend.
Value rest_of(Call& call, const Operands& of) {
  auto& graph = call.graph();
  if (is_real(of.a.type)) return graph.add("Mod", {of.a, of.b}, {{"fmod", 1}});
  // Mod would compute in floating point, which does not hold all numbers of 64 bits.
  return graph.add("Sub", {of.a, graph.add("Mul", {graph.add("Div", {of.a, of.b}), of.b})});
}

/// Where a remainder of reals is neither zero nor of the divisor's sign.
Value has_other_sign(Call& call, Value rest, Value divisor) {
  auto& graph = call.graph();
  const auto zero = graph.number(rest.type, 0);
  const auto is_zero = graph.compare("Equal", rest, zero);
  const auto differs =
      graph.add("Xor", {graph.compare("Less", rest, zero), graph.compare("Less", divisor, zero)});
  return graph.add("And", {graph.add("Not", {is_zero}), differs});
}

/// The remainder that has the sign of the divisor.
Value modulo(Call& call, const Operands& of) {
  auto& graph = call.graph();
  if (!is_real(of.a.type)) return graph.add("Mod", {of.a, of.b});
  const auto rest = rest_of(call, of);
  return graph.choose(has_other_sign(call, rest, of.b), graph.add("Add", {rest, of.b}), rest);
}

/// The floor of a quotient of reals from their remainder, since the quotient itself may be rounded
/// to a whole number above: 1 / 0.1 is 10 in floating point, but 0.1 is more than a tenth.
Value floor_of_exact_quotient(Call& call, const Operands& of) {
  auto& graph = call.graph();
  const auto number = [&](double value) { return graph.number(of.a.type, value); };
  const auto rest = rest_of(call, of);
  const auto whole = graph.add("Div", {graph.add("Sub", {of.a, rest}), of.b});
  const auto below =
      graph.choose(has_other_sign(call, rest, of.b), graph.add("Sub", {whole, number(1)}), whole);
  // It is whole but for rounding.
  const auto floor = graph.add("Floor", {below});
  const auto fraction = graph.add("Sub", {below, floor});
  const auto rounded = graph.choose(graph.compare("Greater", fraction, number(0.5)),
                                    graph.add("Add", {floor, number(1)}), floor);
  // Zeros get the sign of the quotient (which onnxruntime's Where drops from its first choice), and
  // what is divided by zero is infinite.
  const auto quotient = graph.add("Div", {of.a, of.b});
  const auto zero = graph.add("Mul", {quotient, number(0)});
  const auto is_more = graph.compare("Greater", graph.add("Abs", {below}), number(0));
  const auto with_zeros = graph.choose(is_more, rounded, zero);
  return graph.choose(graph.compare("Equal", of.b, number(0)), quotient, with_zeros);
}

Value floor_of_quotient(Call& call, const Operands& of) {
  auto& graph = call.graph();
  if (is_real(of.a.type)) return floor_of_exact_quotient(call, of);
  // ONNX rounds quotients of whole numbers towards zero: of this one nothing is left over.
  return graph.add("Div", {graph.add("Sub", {of.a, modulo(call, of)}), of.b});
}

void divide(Call& call) {
  auto& graph = call.graph();
  if (!call.has("rounding_mode")) {
    const auto type = call.result_type();
    return call.give(graph.add("Div", {call.operand("self", type), call.operand("other", type)}));
  }
  const auto of = operands(call);
  if (call.text("rounding_mode") == "floor") return call.give(floor_of_quotient(call, of));
  const auto quotient = graph.add("Div", {of.a, of.b});
  call.give(is_real(quotient.type) ? truncated(call, quotient) : quotient);
}

void floor_divide(Call& call) {
  call.give(floor_of_quotient(call, operands(call)));
}

void remainder(Call& call) {
  call.give(modulo(call, operands(call)));
}

void remainder_of_dividend(Call& call) {
  call.give(rest_of(call, operands(call)));
}

}  // namespace

void add_division_rules(Rules& rules) {
  for (const auto* overload : {"Tensor", "Scalar"}) {
    const auto named = [&](const char* name) { return std::string(name) + "." + overload; };
    rules[named("div")] = divide;
    rules[named("fmod")] = remainder_of_dividend;
    rules[named("remainder")] = remainder;
  }
  rules["div.Tensor_mode"] = rules["div.Scalar_mode"] = divide;
  rules["floor_divide.default"] = rules["floor_divide.Scalar"] = floor_divide;
  rules["remainder.Scalar_Tensor"] = remainder;
}

}  // namespace attend::onnx
