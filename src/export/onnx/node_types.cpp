#include "export/onnx/node_types.h"

#include "export/onnx/unsupported_operator_error.h"

#include <fmt/format.h>

#include <vector>

namespace attend::onnx {
namespace {

using Types = std::set<Type>;

const Types kFloats{Type::float16, Type::bfloat16, Type::float32, Type::float64};
const Types kIntegers{Type::uint8, Type::int8, Type::int16, Type::int32, Type::int64};

Types both(Types one, const Types& other) {
  one.insert(other.begin(), other.end());
  return one;
}

Types without(Types types, const std::vector<Type>& left_out) {
  for (const auto type : left_out) types.erase(type);
  return types;
}

/// Returns the types to which inputs of type `type` can be cast for an operator that does not
/// support `type`, the narrowest type first. Each of these types can represent all values of
/// `type`, with one exception: float64 falls back to float32.
std::vector<Type> fallback_types(Type type) {
  switch (type) {
    case Type::boolean:
    case Type::uint8:
    case Type::int8:
    case Type::int16:
      return {Type::int32, Type::int64};
    case Type::int32:
      return {Type::int64};
    case Type::float16:
    case Type::bfloat16:
    case Type::float64:
      return {Type::float32};
    default:
      return {};
  }
}

}  // namespace

const std::map<std::string, std::set<Type>>& types_of_nodes() {
  static const auto all = [] {
    const auto numbers = both(kFloats, kIntegers);
    const auto wide = both(kFloats, {Type::int32, Type::int64});
    const auto but_bfloat16 = without(kFloats, {Type::bfloat16});
    const Types up_to_float32{Type::float16, Type::float32};
    std::map<std::string, Types> types{
        {"Compress", both(without(numbers, {Type::bfloat16}), {Type::boolean})},
        {"Det", up_to_float32},
        {"Einsum", without(wide, {Type::bfloat16})},
        {"Erf", without(kFloats, {Type::float64})},
        {"EyeLike", without(numbers, {Type::bfloat16})},
        {"IsInf", {Type::float32, Type::float64}},
        {"MaxPool", both(but_bfloat16, {Type::uint8, Type::int8})},
        {"Neg", without(numbers, {Type::uint8})},
        {"Pad", both(without(numbers, {Type::int16}), {Type::boolean})},
        {"RandomNormalLike", {Type::float32}},
        {"RandomUniformLike", {Type::float32}},
        {"Range", {Type::float32, Type::float64, Type::int16, Type::int32, Type::int64}},
        {"Relu", without(numbers, {Type::uint8, Type::int16})},
        {"Resize", without(numbers, {Type::float64, Type::int16, Type::int64})},
        {"TopK", without(numbers, {Type::bfloat16})},
        {"Trilu", both(wide, {Type::boolean})},
        {"Unique", {Type::float32, Type::float64, Type::int8, Type::int64}},
    };
    const auto add = [&](const Types& supported, const std::vector<const char*>& op_types) {
      for (const auto* op_type : op_types) types.emplace(op_type, supported);
    };
    add({Type::boolean}, {"And", "Not", "Or", "Xor"});
    add(kIntegers, {"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"});
    add(numbers, {"Abs", "Add", "Div", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod",
                  "Mul", "Sign", "Sub"});
    add(without(numbers, {Type::int16}),
        {"ArgMax", "ArgMin", "Max", "Min", "ReduceMax", "ReduceMin", "Where"});
    add(wide, {"CumSum", "MatMul", "PRelu", "Pow", "ReduceL2", "ReduceLogSumExp", "ReduceMean",
               "ReduceProd", "ReduceSum"});
    add(kFloats,
        {"BatchNormalization", "Ceil", "Exp", "Floor", "Gemm", "IsNaN", "LayerNormalization",
         "LeakyRelu", "Log", "LogSoftmax", "Reciprocal", "Sigmoid", "Softmax", "Sqrt", "Tanh"});
    add(kFloats, {"Attention", "RMSNormalization"});
    add(but_bfloat16, {"Cos", "HardSigmoid", "Round", "Selu", "Sin"});
    add(up_to_float32,
        {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "AveragePool", "Col2Im", "Conv",
         "ConvTranspose", "Cosh", "GRU", "Gelu", "GridSample", "LSTM", "RNN", "Sinh", "Tan"});
    return types;
  }();
  return all;
}

Type compute_type_of(const std::string& op_type, Type type) {
  const auto found = types_of_nodes().find(op_type);
  if (found == types_of_nodes().end() || found->second.count(type) > 0) return type;
  for (const auto fallback : fallback_types(type)) {
    if (found->second.count(fallback) > 0) return fallback;
  }
  throw UnsupportedOperatorError(
      fmt::format("the ONNX operator {} does not support the type {}", op_type, name_of(type)));
}

std::string name_of(Type type) {
  switch (type) {
    case Type::float32:
      return "float";
    case Type::uint8:
      return "uint8";
    case Type::int8:
      return "int8";
    case Type::int16:
      return "int16";
    case Type::int32:
      return "int32";
    case Type::int64:
      return "int64";
    case Type::boolean:
      return "bool";
    case Type::float16:
      return "float16";
    case Type::float64:
      return "double";
    case Type::bfloat16:
      return "bfloat16";
  }
  throw std::logic_error("a type without a name");
}

}  // namespace attend::onnx
