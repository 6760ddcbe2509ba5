#include "export/onnx/functions.h"
#include "export/onnx/rules.h"

#include <cmath>

namespace attend::onnx {
namespace {

void add(Call& call) {
  const auto type = call.result_type();
  const auto other = call.times(call.operand("other", type), "alpha");
  call.set_output(call.graph().add("Add", {call.operand("self", type), other}));
}

void subtract(Call& call) {
  const auto type = call.result_type();
  const auto other = call.times(call.operand("other", type), "alpha");
  call.set_output(call.graph().add("Sub", {call.operand("self", type), other}));
}

void subtract_from(Call& call) {
  const auto type = call.result_type();
  const auto self = call.times(call.operand("self", type), "alpha");
  call.set_output(call.graph().add("Sub", {call.operand("other", type), self}));
}

/// Returns a rule that translates a binary operator to the ONNX operator `kind`.
Rule binary(const char* kind) {
  return [kind](Call& call) {
    const auto type = call.arithmetic_type({"self", "other"});
    call.set_output(
        call.graph().add(kind, {call.operand("self", type), call.operand("other", type)}));
  };
}

/// Returns base^exponent by repeated squaring, which is exact for integers.
Value product_of(Call& call, Value base, int64_t exponent) {
  auto& graph = call.graph();
  Value product;
  for (auto left = exponent; left > 0; left /= 2) {
    if (left % 2 == 1) product = product.id == 0 ? base : graph.add("Mul", {product, base});
    if (left > 1) base = graph.add("Mul", {base, base});
  }
  return product;
}

void power(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  const auto base = call.operand("self", type);
  if (!call.is_tensor("exponent")) {
    const auto exponent = call.number("exponent").real;
    // As in LibTorch, x^2 is computed as x * x. If the result has an integer type, powers with any
    // positive whole exponent are computed as products, which are exact. Pow computes in floating
    // point, which is not exact.
    const bool is_whole = exponent >= 1.0 && exponent == std::floor(exponent);
    if (exponent == 2.0 || (is_whole && !is_floating_point(type))) {
      return call.set_output(product_of(call, base, static_cast<int64_t>(exponent)));
    }
    // As in LibTorch, x^0.5 is computed as sqrt(x), and x^-0.5 as 1 / sqrt(x). Pow returns other
    // results if x is -0 or -infinity.
    if (exponent == 0.5) return call.set_output(graph.add("Sqrt", {base}));
    if (exponent == -0.5) {
      return call.set_output(graph.add("Reciprocal", {graph.add("Sqrt", {base})}));
    }
  }
  call.set_output(graph.add("Pow", {base, call.operand("exponent", type)}));
}

/// Returns the translation rule of self + value * (tensor1 op tensor2), with the ONNX operator
/// `kind` as op.
Rule add_binary(const char* kind) {
  return [kind](Call& call) {
    const auto type = call.arithmetic_type({"value"});
    auto& graph = call.graph();
    const auto both = call.times(
        graph.add(kind, {call.operand("tensor1", type), call.operand("tensor2", type)}), "value");
    call.set_output(graph.add("Add", {call.operand("self", type), both}));
  };
}

/// Translates lerp: self + weight * (end - self). For |weight| >= 0.5, computes
/// end - (1 - weight) * (end - self) instead, as LibTorch does. This expression is mathematically
/// equal to the first expression, but is exact for weight 1.
void interpolate(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  const auto self = call.operand("self", type);
  const auto end = call.operand("end", type);
  const auto weight = call.operand("weight", type);
  const auto one = graph.number(type, 1);
  const auto way = graph.add("Sub", {end, self});
  const auto from_self = graph.add("Add", {self, graph.add("Mul", {way, weight})});
  const auto back = graph.add("Mul", {way, graph.add("Sub", {one, weight})});
  const auto from_end = graph.add("Sub", {end, back});
  if (!call.is_tensor("weight")) {
    return call.set_output(std::abs(call.real("weight")) < 0.5 ? from_self : from_end);
  }
  const auto is_near = graph.compare("Less", graph.add("Abs", {weight}), graph.number(type, 0.5));
  call.set_output(graph.where(is_near, from_self, from_end));
}

void clamp(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  auto value = call.operand("self", type);
  if (call.has("min")) value = graph.add("Max", {value, call.operand("min", type)});
  if (call.has("max")) value = graph.add("Min", {value, call.operand("max", type)});
  call.set_output(value);
}

void hard_tanh(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  const auto value = graph.add("Max", {call.operand("self", type), call.operand("min_val", type)});
  call.set_output(graph.add("Min", {value, call.operand("max_val", type)}));
}

/// Returns the translation rule of log_base(base^a + base^b), where `log_of_base` is the natural
/// logarithm of the base. The rule computes max(a, b) + log_base(1 + base^-|a - b|), which does not
/// overflow.
Rule logaddexp(double log_of_base) {
  return [=](Call& call) {
    const auto type = call.result_type();
    auto& graph = call.graph();
    const auto a = call.operand("self", type);
    const auto b = call.operand("other", type);
    const auto times = [&](Value value, double factor) {
      return factor == 1.0 ? value : graph.add("Mul", {value, graph.number(type, factor)});
    };
    // The distance is |a - b|. If a and b are the same infinity, a - b is NaN, but the distance
    // must be 0.
    const auto distance = graph.where(graph.compare("Equal", a, b), graph.number(type, 0),
                                      graph.add("Abs", {graph.add("Sub", {a, b})}));
    const auto small = graph.add("Exp", {times(graph.add("Neg", {distance}), log_of_base)});
    const auto rest = times(log1p_of_fraction(call, small), 1.0 / log_of_base);
    call.set_output(graph.add("Add", {graph.add("Max", {a, b}), rest}));
  };
}

/// Translates self * log(other), which is 0 if self is 0, unless `other` is NaN.
void xlogy(Call& call) {
  const auto type = call.result_type();
  auto& graph = call.graph();
  const auto self = call.operand("self", type);
  const auto other = call.operand("other", type);
  const auto zero = graph.number(type, 0);
  const auto is_number = graph.compare("Equal", other, other);
  const auto is_zero = graph.add("And", {graph.compare("Equal", self, zero), is_number});
  const auto product = graph.add("Mul", {self, graph.add("Log", {other})});
  call.set_output(graph.where(is_zero, zero, product));
}

}  // namespace

void add_arithmetic_rules(Rules& rules) {
  for (const auto* overload : {"Tensor", "Scalar"}) {
    const auto named = [&](const char* name) { return std::string(name) + "." + overload; };
    rules[named("add")] = add;
    rules[named("sub")] = subtract;
    rules[named("mul")] = binary("Mul");
    rules[named("lerp")] = interpolate;
  }
  rules["rsub.Scalar"] = subtract_from;
  rules["pow.Tensor_Tensor"] = rules["pow.Tensor_Scalar"] = rules["pow.Scalar"] = power;
  rules["maximum.default"] = rules["max.other"] = binary("Max");
  rules["minimum.default"] = rules["min.other"] = binary("Min");
  rules["addcmul.default"] = add_binary("Mul");
  rules["addcdiv.default"] = add_binary("Div");
  rules["clamp.default"] = rules["clamp.Tensor"] = clamp;
  rules["clamp_min.default"] = rules["clamp_min.Tensor"] = clamp;
  rules["clamp_max.default"] = rules["clamp_max.Tensor"] = clamp;
  rules["hardtanh.default"] = hard_tanh;
  rules["logaddexp.default"] = logaddexp(1.0);
  rules["logaddexp2.default"] = logaddexp(M_LN2);
  for (const auto* key : {"xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"}) {
    rules[key] = xlogy;
  }
}

}  // namespace attend::onnx
