#include "export/onnx/functions.h"
#include "export/onnx/rules.h"

namespace attend::onnx {
namespace {

Rule compare(const char* kind) {
  return [kind](Call& call) {
    const auto type = call.common_type("self", "other");
    call.set_output(
        call.graph().compare(kind, call.operand("self", type), call.operand("other", type)));
  };
}

void not_equal(Call& call) {
  auto& graph = call.graph();
  const auto type = call.common_type("self", "other");
  const auto equal =
      graph.compare("Equal", call.operand("self", type), call.operand("other", type));
  call.set_output(graph.add("Not", {equal}));
}

Rule logical(const char* kind) {
  return [kind](Call& call) {
    call.set_output(call.graph().add(
        kind, {call.operand("self", Type::boolean), call.operand("other", Type::boolean)}));
  };
}

void logical_not(Call& call) {
  call.set_output(call.graph().add("Not", {call.operand("self", Type::boolean)}));
}

Rule bitwise(const char* of_bools, const char* of_numbers) {
  return [=](Call& call) {
    const auto type = call.result_type();
    call.set_output(call.graph().add(type == Type::boolean ? of_bools : of_numbers,
                                     {call.operand("self", type), call.operand("other", type)}));
  };
}

void bitwise_not(Call& call) {
  const auto self = call.tensor("self");
  call.set_output(call.graph().add(self.type == Type::boolean ? "Not" : "BitwiseNot", {self}));
}

/// Returns 2^exponent for 0 <= exponent < 63, as int64.
Value power_of_two(Call& call, Value exponent) {
  std::vector<int64_t> powers;
  for (int i = 0; i < 63; ++i) powers.push_back(int64_t{1} << i);
  return call.graph().add("Gather", {call.graph().list(powers), exponent}, {{"axis", 0}});
}

// ONNX shifts only unsigned integers. The rules for shifts multiply and divide int64 by powers of
// two. The cast to a narrower type of the output drops the upper bits, as a shift in this type
// does.

void left_shift(Call& call) {
  auto& graph = call.graph();
  const auto number = [&](int64_t value) { return graph.number(Type::int64, value); };
  const auto self = call.operand("self", Type::int64);
  const auto shift = call.operand("other", Type::int64);
  // A shift by 63 is a shift by 62, then by 1. Other shifts give 0.
  const auto bits = graph.add("Min", {graph.add("Max", {shift, number(0)}), number(62)});
  auto shifted = graph.add("Mul", {self, power_of_two(call, bits)});
  const auto is_63 = graph.compare("Equal", shift, number(63));
  shifted = graph.where(is_63, graph.add("Mul", {shifted, number(2)}), shifted);
  const auto is_valid = graph.add("And", {graph.compare("GreaterOrEqual", shift, number(0)),
                                          graph.compare("Less", shift, number(64))});
  call.set_output(graph.where(is_valid, shifted, number(0)));
}

void right_shift(Call& call) {
  auto& graph = call.graph();
  const auto number = [&](int64_t value) { return graph.number(Type::int64, value); };
  const auto self = call.operand("self", Type::int64);
  const auto shift = call.operand("other", Type::int64);
  // All larger shifts and negative ones leave only the sign.
  const auto bits = graph.add("Min", {graph.add("Max", {shift, number(0)}), number(62)});
  const auto shifted = floor_divided(call, self, power_of_two(call, bits));
  const auto sign = graph.where(graph.compare("Less", self, number(0)), number(-1), number(0));
  const auto is_valid = graph.add("And", {graph.compare("GreaterOrEqual", shift, number(0)),
                                          graph.compare("Less", shift, number(63))});
  call.set_output(graph.where(is_valid, shifted, sign));
}

void where(Call& call) {
  const auto type = call.result_type();
  call.set_output(call.graph().where(call.operand("condition", Type::boolean),
                                     call.operand("self", type), call.operand("other", type)));
}

void masked_fill(Call& call) {
  const auto type = call.result_type();
  call.set_output(call.graph().where(call.operand("mask", Type::boolean),
                                     call.operand("value", type), call.operand("self", type)));
}

Value is_nan(Call& call, Value x) {
  return call.graph().add("IsNaN", {x}, {}, Type::boolean);
}

Value is_infinite(Call& call, Value x, int64_t positive = 1, int64_t negative = 1) {
  return call.graph().add(
      "IsInf", {x}, {{"detect_positive", positive}, {"detect_negative", negative}}, Type::boolean);
}

/// Returns the result of isnan and isinf for a tensor of integers: false for each element, since
/// integers are never NaN or infinite.
Value all_false(Call& call) {
  auto& graph = call.graph();
  return graph.add("Expand", {graph.number(Type::boolean, 0), call.shape(call.sizes("self"))});
}

void isnan(Call& call) {
  const auto self = call.tensor("self");
  call.set_output(is_floating_point(self.type) ? is_nan(call, self) : all_false(call));
}

void isinf(Call& call) {
  const auto self = call.tensor("self");
  call.set_output(is_floating_point(self.type) ? is_infinite(call, self) : all_false(call));
}

void isfinite(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  if (!is_floating_point(self.type)) return call.set_output(graph.add("Not", {all_false(call)}));
  call.set_output(
      graph.add("Not", {graph.add("Or", {is_nan(call, self), is_infinite(call, self)})}));
}

double finite_max(Type type) {
  switch (type) {
    case Type::float16:
      return 65504.0;
    case Type::bfloat16:
      return 0x1.FEp127;
    case Type::float64:
      return 0x1.FFFFFFFFFFFFFp1023;
    default:
      return 0x1.FFFFFEp127;
  }
}

void nan_to_num(Call& call) {
  auto& graph = call.graph();
  auto value = call.tensor("self");
  if (!is_floating_point(value.type)) return call.set_output(value);
  const auto argument_or = [&](const char* name, double default_value) {
    return graph.number(value.type, call.has(name) ? call.real(name) : default_value);
  };
  const auto self = value;
  value = graph.where(is_nan(call, self), argument_or("nan", 0.0), value);
  value = graph.where(is_infinite(call, self, 1, 0), argument_or("posinf", finite_max(self.type)),
                      value);
  value = graph.where(is_infinite(call, self, 0, 1), argument_or("neginf", -finite_max(self.type)),
                      value);
  call.set_output(value);
}

}  // namespace

void add_comparison_rules(Rules& rules) {
  for (const auto* overload : {".Tensor", ".Scalar"}) {
    const auto named = [&](const char* name) { return std::string(name) + overload; };
    rules[named("eq")] = compare("Equal");
    rules[named("ne")] = not_equal;
    rules[named("lt")] = compare("Less");
    rules[named("le")] = compare("LessOrEqual");
    rules[named("gt")] = compare("Greater");
    rules[named("ge")] = compare("GreaterOrEqual");
    rules[named("bitwise_and")] = rules[named("__and__")] = bitwise("And", "BitwiseAnd");
    rules[named("bitwise_or")] = rules[named("__or__")] = bitwise("Or", "BitwiseOr");
    rules[named("bitwise_xor")] = rules[named("__xor__")] = bitwise("Xor", "BitwiseXor");
    rules[named("masked_fill")] = masked_fill;
  }
  for (const auto* overload : {".Tensor", ".Tensor_Scalar", ".Scalar_Tensor"}) {
    rules[std::string("bitwise_left_shift") + overload] = left_shift;
    rules[std::string("bitwise_right_shift") + overload] = right_shift;
  }
  for (const auto* overload : {".Tensor", ".Scalar"}) {
    rules[std::string("__lshift__") + overload] = left_shift;
    rules[std::string("__rshift__") + overload] = right_shift;
  }
  rules["logical_and.default"] = logical("And");
  rules["logical_or.default"] = logical("Or");
  rules["logical_xor.default"] = logical("Xor");
  rules["logical_not.default"] = logical_not;
  rules["bitwise_not.default"] = bitwise_not;
  rules["where.self"] = rules["where.ScalarSelf"] = rules["where.ScalarOther"] =
      rules["where.Scalar"] = where;
  rules["isnan.default"] = isnan;
  rules["isinf.default"] = isinf;
  rules["isfinite.default"] = isfinite;
  rules["nan_to_num.default"] = nan_to_num;
}

}  // namespace attend::onnx
