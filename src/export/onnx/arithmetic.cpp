#include "export/onnx/rules.h"

namespace attend::onnx {
namespace {

void add(Call& call) {
  const auto type = computable(call.result_type());
  const auto other = call.times(call.operand("other", type), "alpha");
  call.give(call.graph().add("Add", {call.operand("self", type), other}));
}

void subtract(Call& call) {
  const auto type = computable(call.result_type());
  const auto other = call.times(call.operand("other", type), "alpha");
  call.give(call.graph().add("Sub", {call.operand("self", type), other}));
}

void subtract_from(Call& call) {
  const auto type = computable(call.result_type());
  const auto self = call.times(call.operand("self", type), "alpha");
  call.give(call.graph().add("Sub", {call.operand("other", type), self}));
}

/// Of two operands, as the type of the result.
Rule of_two(const char* kind) {
  return [kind](Call& call) {
    const auto type = computable(call.result_type());
    call.give(call.graph().add(kind, {call.operand("self", type), call.operand("other", type)}));
  };
}

/// The remainder that has the sign of the divisor.
Value modulo(Call& call, Value a, Value b) {
  auto& graph = call.graph();
  if (!is_real(a.type)) return graph.add("Mod", {a, b});
  const auto zero = graph.number(a.type, 0);
  const auto rest = graph.add("Mod", {a, b}, {{"fmod", 1}});  // has the sign of the dividend
  const auto product = graph.add("Mul", {rest, b});
  const auto differs = graph.add("Less", {product, zero}, {}, Type::boolean);
  const auto corrected = graph.add("Add", {rest, b});
  return graph.add("Where", {differs, corrected, rest}, {}, a.type);
}

/// ONNX rounds the quotient of whole numbers towards zero, and leaves that of others as it is.
Value floor_of_quotient(Call& call, Value a, Value b) {
  auto& graph = call.graph();
  if (is_real(a.type)) return graph.add("Floor", {graph.add("Div", {a, b})});
  return graph.add("Div", {graph.add("Sub", {a, modulo(call, a, b)}), b});
}

Value truncated(Call& call, Value x) {
  auto& graph = call.graph();
  if (!is_real(x.type)) return x;
  return graph.add("Mul", {graph.add("Sign", {x}), graph.add("Floor", {graph.add("Abs", {x})})});
}

void divide(Call& call) {
  const auto type = computable(call.result_type());
  const auto a = call.operand("self", type);
  const auto b = call.operand("other", type);
  const auto mode = call.has("rounding_mode") ? call.text("rounding_mode") : std::string();
  if (mode == "floor") return call.give(floor_of_quotient(call, a, b));
  const auto quotient = call.graph().add("Div", {a, b});
  call.give(mode == "trunc" ? truncated(call, quotient) : quotient);
}

void floor_divide(Call& call) {
  const auto type = computable(call.result_type());
  call.give(floor_of_quotient(call, call.operand("self", type), call.operand("other", type)));
}

void remainder(Call& call) {
  const auto type = computable(call.result_type());
  call.give(modulo(call, call.operand("self", type), call.operand("other", type)));
}

void remainder_of_division(Call& call) {
  const auto type = computable(call.result_type());
  call.give(call.graph().add("Mod", {call.operand("self", type), call.operand("other", type)},
                             {{"fmod", 1}}));
}

void power(Call& call) {
  const auto type = computable(call.result_type());
  auto& graph = call.graph();
  const auto base = call.operand("self", type);
  if (!call.is_tensor("exponent") && call.number("exponent").real == 2.0) {
    return call.give(graph.add("Mul", {base, base}));
  }
  call.give(graph.add("Pow", {base, call.operand("exponent", type)}));
}

/// self + value * (tensor1 op tensor2)
Rule add_of_two(const char* kind) {
  return [kind](Call& call) {
    const auto type = call.result_type();
    auto& graph = call.graph();
    const auto both = call.times(
        graph.add(kind, {call.operand("tensor1", type), call.operand("tensor2", type)}), "value");
    call.give(graph.add("Add", {call.operand("self", type), both}));
  };
}

/// self + weight * (end - self)
void interpolate(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  const auto self = call.operand("self", type);
  const auto way = graph.add("Sub", {call.operand("end", type), self});
  const auto part = graph.add("Mul", {way, call.operand("weight", type)});
  call.give(graph.add("Add", {self, part}));
}

/// The bounds may be numbers or tensors, one of them may be missing.
void clamp(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  auto value = call.operand("self", type);
  if (call.has("min")) value = graph.add("Max", {value, call.operand("min", type)});
  if (call.has("max")) value = graph.add("Min", {value, call.operand("max", type)});
  call.give(value);
}

void hard_tanh(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  const auto value = graph.add("Max", {call.operand("self", type), call.operand("min_val", type)});
  call.give(graph.add("Min", {value, call.operand("max_val", type)}));
}

void logaddexp(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  const auto a = call.operand("self", type);
  const auto b = call.operand("other", type);
  const auto distance = graph.add("Abs", {graph.add("Sub", {a, b})});
  const auto small = graph.add("Exp", {graph.add("Neg", {distance})});
  const auto rest = graph.add("Log", {graph.add("Add", {small, graph.number(type, 1)})});
  call.give(graph.add("Add", {graph.add("Max", {a, b}), rest}));
}

void truncate(Call& call) {
  call.give(truncated(call, call.tensor("self")));
}

void fraction(Call& call) {
  const auto self = call.tensor("self");
  call.give(call.graph().add("Sub", {self, truncated(call, self)}));
}

}  // namespace

void add_arithmetic_rules(Rules& rules) {
  for (const auto* overload : {"Tensor", "Scalar"}) {
    const auto named = [&](const char* name) { return std::string(name) + "." + overload; };
    rules[named("add")] = add;
    rules[named("sub")] = subtract;
    rules[named("mul")] = of_two("Mul");
    rules[named("div")] = divide;
    rules[named("fmod")] = remainder_of_division;
    rules[named("remainder")] = remainder;
    rules[named("lerp")] = interpolate;
  }
  rules["rsub.Scalar"] = subtract_from;
  rules["div.Tensor_mode"] = rules["div.Scalar_mode"] = divide;
  rules["floor_divide.default"] = rules["floor_divide.Scalar"] = floor_divide;
  rules["remainder.Scalar_Tensor"] = remainder;
  rules["pow.Tensor_Tensor"] = rules["pow.Tensor_Scalar"] = rules["pow.Scalar"] = power;
  rules["maximum.default"] = rules["max.other"] = of_two("Max");
  rules["minimum.default"] = rules["min.other"] = of_two("Min");
  rules["addcmul.default"] = add_of_two("Mul");
  rules["addcdiv.default"] = add_of_two("Div");
  rules["clamp.default"] = rules["clamp.Tensor"] = clamp;
  rules["clamp_min.default"] = rules["clamp_min.Tensor"] = clamp;
  rules["clamp_max.default"] = rules["clamp_max.Tensor"] = clamp;
  rules["hardtanh.default"] = hard_tanh;
  rules["logaddexp.default"] = logaddexp;
  rules["trunc.default"] = truncate;
  rules["frac.default"] = fraction;
}

}  // namespace attend::onnx
