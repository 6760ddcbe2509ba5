#include "export/onnx/call.h"

#include "export/onnx/unsupported_operator_error.h"
#include "export/program/node_arguments.h"
#include "program/target.h"

#include <c10/core/WrapDimMinimal.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace attend::onnx {

std::string operator_name(const std::string& target) {
  return program::is_operator(target) ? program::parse_target(target).qualified_name() : target;
}

std::vector<std::string> results_of(const program::Node& node) {
  std::vector<std::string> results;
  for (const auto& output : node.outputs) {
    for (auto& name : program::names_in(output)) results.push_back(std::move(name));
  }
  return results;
}

Call::Call(const program::Node& node, Translation& translation)
    : node_(node), translation_(translation), results_(results_of(node)) {}

void Call::fail(const std::string& why) const {
  throw UnsupportedOperatorError(why);
}

const program::Argument& Call::argument(const std::string& name) const {
  for (const auto& input : node_.inputs) {
    if (input.name == name) return input.value;
  }
  static const program::Argument none = program::None{};
  return none;
}

bool Call::has(const std::string& name) const {
  return !std::holds_alternative<program::None>(argument(name));
}

bool Call::is_tensor(const std::string& name) const {
  return std::holds_alternative<program::TensorName>(argument(name));
}

bool Call::is_complex(const std::string& name) const {
  return is_tensor(name) && onnx::is_complex(meta(tensor_name(name)));
}

bool Call::is_string(const std::string& name) const {
  return std::holds_alternative<std::string>(argument(name));
}

const std::string& Call::tensor_name(const std::string& name) const {
  const auto* tensor = std::get_if<program::TensorName>(&argument(name));
  if (tensor == nullptr) fail(fmt::format("argument '{}' must be a tensor", name));
  return tensor->name;
}

Value Call::tensor(const std::string& name) {
  const auto value = translation_.values.at(tensor_name(name));
  return graph().cast(value, computed_type(value.type));
}

std::vector<std::optional<std::string>> Call::optional_tensors(const std::string& name) const {
  std::vector<std::optional<std::string>> names;
  if (const auto* tensors = std::get_if<std::vector<program::TensorName>>(&argument(name))) {
    for (const auto& tensor : *tensors) names.emplace_back(tensor.name);
  } else if (const auto* some =
                 std::get_if<std::vector<program::OptionalTensor>>(&argument(name))) {
    for (const auto& item : *some) {
      const auto* tensor = std::get_if<program::TensorName>(&item);
      names.push_back(tensor == nullptr ? std::nullopt : std::optional(tensor->name));
    }
  } else {
    fail(fmt::format("argument '{}' must be a list of tensors", name));
  }
  return names;
}

std::vector<Value> Call::tensors(const std::string& name) {
  std::vector<Value> values;
  for (const auto& tensor : optional_tensors(name)) {
    values.push_back(tensor ? translation_.values.at(*tensor) : Value{});
  }
  return values;
}

Number Call::number(const std::string& name) const {
  const auto& value = argument(name);
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* flag = std::get_if<bool>(&value)) return static_cast<int64_t>(*flag);
  fail(fmt::format("argument '{}' must be a constant number", name));
}

int64_t Call::integer(const std::string& name) const {
  const auto found = number(name);
  if (found.is_real) fail(fmt::format("argument '{}' must be an integer", name));
  return found.integer;
}

double Call::real(const std::string& name) const {
  return number(name).real;
}

bool Call::boolean(const std::string& name) const {
  return has(name) && integer(name) != 0;
}

std::string Call::string(const std::string& name) const {
  const auto* text = std::get_if<std::string>(&argument(name));
  if (text == nullptr) fail(fmt::format("argument '{}' must be a string", name));
  return *text;
}

std::vector<int64_t> Call::integers(const std::string& name) const {
  const auto& value = argument(name);
  if (const auto* one = std::get_if<int64_t>(&value)) return {*one};
  const auto* list = std::get_if<std::vector<program::ValueOrSymbol<int64_t>>>(&value);
  if (list == nullptr) fail(fmt::format("argument '{}' must be a list of integers", name));
  std::vector<int64_t> numbers;
  for (const auto& item : *list) {
    const auto* number = std::get_if<int64_t>(&item);
    if (number == nullptr) fail(fmt::format("argument '{}' must be a list of constants", name));
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<double> Call::reals(const std::string& name) const {
  const auto* list = std::get_if<std::vector<program::ValueOrSymbol<double>>>(&argument(name));
  if (list == nullptr) fail(fmt::format("argument '{}' must be a list of numbers", name));
  std::vector<double> numbers;
  for (const auto& item : *list) {
    const auto* number = std::get_if<double>(&item);
    if (number == nullptr) fail(fmt::format("argument '{}' must be a list of constants", name));
    numbers.push_back(*number);
  }
  return numbers;
}

Value Call::times(Value value, const std::string& name) {
  if (!has(name)) return value;
  if (is_computed(name)) return graph().add("Mul", {value, operand(name, value.type)});
  const auto factor = number(name);
  if (factor.real == 1.0) return value;
  return graph().add("Mul", {value, graph().number(value.type, factor)});
}

Value Call::operand(const std::string& name, Type type) {
  if (is_tensor(name)) return graph().cast(tensor(name), type);
  if (const auto* computed = symbol(name)) {
    return graph().cast(graph().add("Squeeze", {translation_.values.at(computed->name)}), type);
  }
  return graph().number(type, number(name));
}

const program::SymbolName* Call::symbol(const std::string& name) const {
  return std::get_if<program::SymbolName>(&argument(name));
}

bool Call::is_real(const std::string& name) const {
  const auto* computed = symbol(name);
  return computed != nullptr ? translation_.program.sym_floats.contains(computed->name)
                             : number(name).is_real;
}

using Integers = std::vector<program::ValueOrSymbol<int64_t>>;

bool Call::is_computed(const std::string& name) const {
  const auto* list = std::get_if<Integers>(&argument(name));
  return symbol(name) != nullptr ||
         (list != nullptr && std::any_of(list->begin(), list->end(), [](const auto& item) {
            return std::holds_alternative<program::SymbolName>(item);
          }));
}

std::size_t Call::length(const std::string& name) const {
  return std::get<Integers>(argument(name)).size();
}

Value Call::integer_value(const std::string& name, std::size_t index) {
  const auto& item = std::get<Integers>(argument(name)).at(index);
  if (const auto* number = std::get_if<int64_t>(&item)) return graph().list({*number});
  return translation_.values.at(std::get<program::SymbolName>(item).name);
}

Value Call::integers_value(const std::string& name) {
  if (const auto* computed = symbol(name)) return translation_.values.at(computed->name);
  if (!is_computed(name)) return graph().list(integers(name));
  std::vector<Value> parts;
  for (std::size_t i = 0; i < std::get<Integers>(argument(name)).size(); ++i) {
    parts.push_back(integer_value(name, i));
  }
  return graph().add("Concat", parts, {{"axis", 0}});
}

const program::TensorMeta& Call::meta(const std::string& name_in_program) const {
  return translation_.program.tensors.at(name_in_program);
}

const Sizes& Call::sizes_of_tensor(const std::string& name_in_program) const {
  return meta(name_in_program).sizes;
}

const Sizes& Call::sizes(const std::string& name) const {
  return sizes_of_tensor(tensor_name(name));
}

int64_t Call::dimension(const std::string& name, const std::string& of) const {
  return c10::maybe_wrap_dim(integer(name), rank(of));
}

std::vector<int64_t> Call::dimensions(const std::string& name, const std::string& of) const {
  auto all = integers(name);
  for (auto& each : all) each = c10::maybe_wrap_dim(each, rank(of));
  return all;
}

Type Call::common_type(const std::string& one, const std::string& other) const {
  // In PyTorch's type promotion, floating point types have priority over integer types, and integer
  // types over bool. Within each of these categories, tensors with dimensions have priority over
  // 0-dimensional tensors, and 0-dimensional tensors over numbers.
  std::array<std::optional<Type>, 3> types;
  for (const auto& name : {one, other}) {
    std::size_t place = 2;
    auto type = Type::float32;
    if (is_tensor(name)) {
      place = rank(name) > 0 ? 0 : 1;
      type = type_of(meta(tensor_name(name)));
    } else {
      type = is_real(name) ? Type::float32 : Type::int64;
      if (std::holds_alternative<bool>(argument(name))) type = Type::boolean;
    }
    types[place] = types[place] ? promote(*types[place], type) : type;
  }
  std::optional<Type> common;
  for (const auto& type : types) {
    if (type && (!common || category_of(*type) > category_of(*common))) common = type;
  }
  return *common;
}

Type Call::arithmetic_type(const std::vector<std::string>& names) const {
  const auto type = result_type();
  const auto is_inexact = [&](const std::string& name) {
    if (!has(name)) return false;
    if (is_tensor(name)) {
      return rank(name) == 0 && is_floating_point(type_of(meta(tensor_name(name)))) &&
             type_of(meta(tensor_name(name))) != type;
    }
    if (is_computed(name)) return true;
    const auto value = number(name).real;
    const auto narrow = static_cast<float>(value);
    return value != (type == Type::float16 ? static_cast<float>(c10::Half(narrow))
                                           : static_cast<float>(c10::BFloat16(narrow)));
  };
  const bool is_narrow = type == Type::float16 || type == Type::bfloat16;
  return is_narrow && std::any_of(names.begin(), names.end(), is_inexact) ? Type::float32 : type;
}

int64_t Call::fixed(const program::Size& size, const std::string& what) const {
  if (!is_fixed(size)) {
    fail(fmt::format(
        "{} must not be dynamic: it is {} for the example inputs, but differs for other inputs",
        what, size.value));
  }
  return size.value;
}

int64_t Call::smallest(const program::Size& size) const {
  return bounds_of(size, translation_.program.ranges).first;
}

int64_t Call::largest(const program::Size& size) const {
  return bounds_of(size, translation_.program.ranges).second;
}

std::size_t Call::num_outputs() const {
  return results_.size();
}

const std::string& Call::result_name(std::size_t i) const {
  return results_.at(i);
}

Type Call::result_type(std::size_t i) const {
  return computed_type(component_type_of(meta(result_name(i))));
}

const Sizes& Call::result_sizes(std::size_t i) const {
  return sizes_of_tensor(result_name(i));
}

void Call::set_output(Value value, std::size_t i) {
  const auto& known = meta(result_name(i));
  const auto result = graph().cast(value, component_type_of(known));
  translation_.values[result_name(i)] = result;
  translation_.add_dynamic_sizes(result, known.sizes);
}

}  // namespace attend::onnx
