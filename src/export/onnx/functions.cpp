#include "export/onnx/functions.h"

#include "export/onnx/rules.h"

#include <cmath>
#include <string>

namespace attend::onnx {
namespace {

/// Returns `near` where |x| < 1, else `far`.
Value by_magnitude(Call& call, Value x, Value near, Value far) {
  auto& graph = call.graph();
  const auto is_near = graph.compare("Less", graph.add("Abs", {x}), graph.number(x.type, 1));
  return graph.where(is_near, near, far);
}

}  // namespace

Value truncated(Call& call, Value x) {
  auto& graph = call.graph();
  // Ceil may return -0. The output of Ceil is the third input of Where, since onnxruntime drops the
  // sign of zeros in the second input.
  const auto is_positive = graph.compare("Greater", x, graph.number(x.type, 0));
  return graph.where(is_positive, graph.add("Floor", {x}), graph.add("Ceil", {x}));
}

namespace {

/// Returns true where `x` is negative or -0.
Value has_sign(Call& call, Value x) {
  auto& graph = call.graph();
  const auto zero = graph.number(x.type, 0);
  const auto is_negative_zero = graph.add(
      "And",
      {graph.compare("Equal", x, zero), graph.compare("Less", graph.add("Reciprocal", {x}), zero)});
  return graph.add("Or", {graph.compare("Less", x, zero), is_negative_zero});
}

}  // namespace

Value atan2(Call& call, Value y, Value x) {
  auto& graph = call.graph();
  const auto number = [&](double value) { return graph.number(x.type, value); };
  // The angle of (|x|, |y|) follows from the ratio of the smaller and the larger number, which does
  // not overflow. The ratio of equal numbers is 1, also if they are infinite, and 0 if they are 0.
  const auto width = graph.add("Abs", {x});
  const auto height = graph.add("Abs", {y});
  const auto is_steep = graph.compare("Greater", height, width);
  const auto small = graph.where(is_steep, width, height);
  const auto large = graph.where(is_steep, height, width);
  auto ratio = graph.add("Div", {small, large});
  const auto of_equal = graph.where(graph.compare("Equal", large, number(0)), large, number(1));
  ratio = graph.where(graph.compare("Equal", small, large), of_equal, ratio);
  auto angle = graph.add("Atan", {ratio});
  angle = graph.where(is_steep, graph.add("Sub", {number(M_PI_2), angle}), angle);
  angle = graph.where(has_sign(call, x), graph.add("Sub", {number(M_PI), angle}), angle);
  return graph.where(has_sign(call, y), graph.add("Neg", {angle}), angle);
}

Value floor_divided(Call& call, Value a, Value b) {
  auto& graph = call.graph();
  // Div rounds towards zero. If the remainder, which has the sign of the divisor, is subtracted
  // from the dividend first, the division is exact.
  return graph.add("Div", {graph.add("Sub", {a, graph.add("Mod", {a, b})}), b});
}

// For a small x, 1 + x loses digits of x. Kahan's formulas for log1p and expm1 correct this error.

Value log1p_of_fraction(Call& call, Value x) {
  auto& graph = call.graph();
  const auto one = graph.number(x.type, 1);
  const auto sum = graph.add("Add", {x, one});
  const auto rounding = graph.add("Div", {x, graph.add("Sub", {sum, one})});
  const auto corrected = graph.add("Mul", {graph.add("Log", {sum}), rounding});
  return graph.where(graph.compare("Equal", sum, one), x, corrected);
}

Value log1p(Call& call, Value x) {
  auto& graph = call.graph();
  const auto plain = graph.add("Log", {graph.add("Add", {x, graph.number(x.type, 1)})});
  return by_magnitude(call, x, log1p_of_fraction(call, x), plain);
}

namespace {

/// Returns the translation rule of a unary operator that computes in the type of its output.
Rule unary(const char* kind, const Attributes& attributes = {}) {
  return [=](Call& call) {
    call.set_output(call.graph().add(kind, {call.operand("self", call.result_type())}, attributes));
  };
}

/// Returns the translation rule of a rounding operator. Integers are returned unchanged.
Rule rounded(const char* kind) {
  return [=](Call& call) {
    const auto self = call.tensor("self");
    call.set_output(is_floating_point(self.type) ? call.graph().add(kind, {self}) : self);
  };
}

/// Translates round. `decimals` is the number of decimal places, and may be negative.
void round(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  if (!is_floating_point(self.type)) return call.set_output(self);
  const auto decimals = call.has("decimals") ? call.integer("decimals") : 0;
  if (decimals == 0) return call.set_output(graph.add("Round", {self}));
  const auto power =
      graph.number(self.type, std::pow(10.0, static_cast<double>(std::abs(decimals))));
  const auto* scale = decimals > 0 ? "Mul" : "Div";
  const auto* unscale = decimals > 0 ? "Div" : "Mul";
  const auto rounded = graph.add("Round", {graph.add(scale, {self, power})});
  call.set_output(graph.add(unscale, {rounded, power}));
}

void trunc(Call& call) {
  const auto self = call.tensor("self");
  call.set_output(is_floating_point(self.type) ? truncated(call, self) : self);
}

void frac(Call& call) {
  const auto self = call.tensor("self");
  call.set_output(call.graph().add("Sub", {self, truncated(call, self)}));
}

/// Translates sign. In LibTorch, sign(NaN) is 0.
void sign(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto sign = graph.add("Sign", {self});
  if (!is_floating_point(self.type)) return call.set_output(sign);
  const auto is_nan = graph.add("IsNaN", {self}, {}, Type::boolean);
  call.set_output(graph.where(is_nan, graph.number(self.type, 0), sign));
}

void rsqrt(Call& call) {
  auto& graph = call.graph();
  const auto root = graph.add("Sqrt", {call.operand("self", call.result_type())});
  call.set_output(graph.add("Reciprocal", {root}));
}

void square(Call& call) {
  const auto self = call.operand("self", call.result_type());
  call.set_output(call.graph().add("Mul", {self, self}));
}

/// Returns the translation rule of the logarithm to base b: log(x) / log(b). `base` is log(b), the
/// natural logarithm of b. The rule computes in float64, so that the results for powers of b are
/// exact after rounding to float32.
Rule logarithm(double base) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto natural = graph.add("Log", {call.operand("self", Type::float64)});
    call.set_output(graph.add("Div", {natural, graph.number(natural.type, base)}));
  };
}

void log1p_rule(Call& call) {
  call.set_output(log1p(call, call.operand("self", call.result_type())));
}

void exp2(Call& call) {
  auto& graph = call.graph();
  const auto self = call.operand("self", call.result_type());
  call.set_output(graph.add("Pow", {graph.number(self.type, 2), self}));
}

void expm1(Call& call) {
  auto& graph = call.graph();
  const auto x = call.operand("self", call.result_type());
  const auto one = graph.number(x.type, 1);
  const auto power = graph.add("Exp", {x});
  const auto plain = graph.add("Sub", {power, one});
  const auto rounding = graph.add("Div", {x, graph.add("Log", {power})});
  const auto corrected =
      graph.where(graph.compare("Equal", power, one), x, graph.add("Mul", {plain, rounding}));
  call.set_output(by_magnitude(call, x, corrected, plain));
}

void erfc(Call& call) {
  auto& graph = call.graph();
  const auto self = call.operand("self", call.result_type());
  call.set_output(graph.add("Sub", {graph.number(self.type, 1), graph.add("Erf", {self})}));
}

/// Translates logit: log(x / (1 - x)). With `eps`, x is first clamped to [eps, 1 - eps].
void logit(Call& call) {
  auto& graph = call.graph();
  auto x = call.operand("self", call.result_type());
  const auto one = graph.number(x.type, 1.0);
  if (call.has("eps")) {
    x = graph.add("Max", {x, graph.number(x.type, call.real("eps"))});
    x = graph.add("Min", {x, graph.number(x.type, 1.0 - call.real("eps"))});
  }
  call.set_output(graph.add("Log", {graph.add("Div", {x, graph.add("Sub", {one, x})})}));
}

void atan2_rule(Call& call) {
  const auto type = call.result_type();
  call.set_output(atan2(call, call.operand("self", type), call.operand("other", type)));
}

}  // namespace

void add_function_rules(Rules& rules) {
  const std::map<std::string, const char*> plain{
      {"exp", "Exp"},     {"log", "Log"},         {"sqrt", "Sqrt"},
      {"sin", "Sin"},     {"cos", "Cos"},         {"tan", "Tan"},
      {"asin", "Asin"},   {"acos", "Acos"},       {"atan", "Atan"},
      {"sinh", "Sinh"},   {"cosh", "Cosh"},       {"tanh", "Tanh"},
      {"asinh", "Asinh"}, {"acosh", "Acosh"},     {"atanh", "Atanh"},
      {"neg", "Neg"},     {"sigmoid", "Sigmoid"}, {"reciprocal", "Reciprocal"},
      {"abs", "Abs"},     {"relu", "Relu"},       {"erf", "Erf"}};
  for (const auto& [name, kind] : plain) rules[name + ".default"] = unary(kind);
  rules["floor.default"] = rounded("Floor");
  rules["ceil.default"] = rounded("Ceil");
  rules["round.default"] = rules["round.decimals"] = round;
  rules["atan2.default"] = atan2_rule;
  rules["trunc.default"] = trunc;
  rules["frac.default"] = frac;
  rules["sign.default"] = sign;
  rules["rsqrt.default"] = rsqrt;
  rules["square.default"] = square;
  rules["log2.default"] = logarithm(M_LN2);
  rules["log10.default"] = logarithm(M_LN10);
  rules["log1p.default"] = log1p_rule;
  rules["exp2.default"] = exp2;
  rules["expm1.default"] = expm1;
  rules["erfc.default"] = erfc;
  rules["logit.default"] = logit;
}

}  // namespace attend::onnx
