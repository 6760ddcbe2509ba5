#include "export/onnx/graph.h"

#include "export/onnx/node_types.h"
#include "export/onnx/opset.h"
#include "export/onnx/unsupported_operator_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace attend::onnx {
namespace {

int width_of(Type type) {
  switch (type) {
    case Type::float64:
    case Type::int64:
      return 8;
    case Type::float32:
    case Type::int32:
      return 4;
    case Type::float16:
    case Type::bfloat16:
    case Type::int16:
      return 2;
    default:
      return 1;
  }
}

}  // namespace

bool is_floating_point(Type type) {
  return type == Type::float16 || type == Type::bfloat16 || type == Type::float32 ||
         type == Type::float64;
}

int category_of(Type type) {
  if (type == Type::boolean) return 0;
  return is_floating_point(type) ? 2 : 1;
}

Type at_least_float32(Type type) {
  return type == Type::float16 || type == Type::bfloat16 ? Type::float32 : type;
}

Type promote(Type one, Type other) {
  if (one == other) return one;
  if (category_of(one) != category_of(other))
    return category_of(one) > category_of(other) ? one : other;
  if (width_of(one) != width_of(other)) return width_of(one) > width_of(other) ? one : other;
  // The types are float16 and bfloat16, or int8 and uint8. Neither represents all values of the
  // other.
  return is_floating_point(one) ? Type::float32 : Type::int16;
}

bool Graph::has(const std::string& op_type) const {
  return has_operator(op_type, opset_);
}

Value Graph::add_input(Type type) {
  return next(type);
}

Value Graph::add(const std::string& op_type, const std::vector<Value>& inputs,
                 const Attributes& attributes, std::optional<Type> type) {
  if (inputs.empty())
    return push(op_type, inputs, attributes, {type.value_or(Type::float32)}).front();
  const auto input_type = inputs.front().type;
  const auto compute_type = compute_type_of(op_type, input_type);
  const auto result = push(op_type, cast_all(inputs, input_type, compute_type), attributes,
                           {type.value_or(compute_type)});
  return type ? result.front() : cast(result.front(), input_type);
}

std::vector<Value> Graph::add(const std::string& op_type, const std::vector<Value>& inputs,
                              const Attributes& attributes, const std::vector<Type>& types) {
  const auto input_type = inputs.front().type;
  const auto compute_type = compute_type_of(op_type, input_type);
  auto computed = types;
  std::replace(computed.begin(), computed.end(), input_type, compute_type);
  auto results = push(op_type, cast_all(inputs, input_type, compute_type), attributes, computed);
  for (std::size_t i = 0; i < results.size(); ++i) results[i] = cast(results[i], types[i]);
  return results;
}

/// Casts the values that have type `from` to type `to`. Values of other types are unchanged.
std::vector<Value> Graph::cast_all(std::vector<Value> values, Type from, Type to) {
  for (auto& value : values) {
    if (value.id != 0 && value.type == from) value = cast(value, to);
  }
  return values;
}

std::vector<Value> Graph::push(const std::string& op_type, const std::vector<Value>& inputs,
                               const Attributes& attributes, const std::vector<Type>& types) {
  std::vector<Value> outputs;
  for (const auto type : types) outputs.push_back(next(type));
  Node node{op_type, inputs, attributes, outputs};
  adapt(node, opset_, [&](const Value& constant) { return numbers_of(constant); });
  nodes_.push_back(std::move(node));
  return outputs;
}

std::vector<int64_t> Graph::numbers_of(const Value& constant) const {
  for (const auto& node : nodes_) {
    if (node.op_type != "Constant" || node.outputs.front().id != constant.id) continue;
    std::vector<int64_t> numbers;
    for (const auto& number : std::get<Constant>(node.attributes.at("value")).numbers) {
      numbers.push_back(number.integer);
    }
    return numbers;
  }
  throw UnsupportedOperatorError(
      fmt::format("opset {} requires a constant, found the result of an operator", opset_));
}

Value Graph::constant(const Constant& constant) {
  auto key = fmt::format("{}", static_cast<int>(constant.type));
  for (const auto size : constant.shape) key += fmt::format(" {}", size);
  key += ':';
  for (const auto& number : constant.numbers) {
    key += number.is_real ? fmt::format(" {:a}", number.real) : fmt::format(" {}", number.integer);
  }
  const auto found = constants_.find(key);
  if (found != constants_.end()) return found->second;
  const auto value = add("Constant", {}, {{"value", constant}}, constant.type);
  constants_.emplace(key, value);
  return value;
}

Value Graph::list(const std::vector<int64_t>& numbers) {
  return constant({Type::int64,
                   {static_cast<int64_t>(numbers.size())},
                   std::vector<Number>(numbers.begin(), numbers.end())});
}

Value Graph::number(Type type, const Number& number) {
  return constant({type, {}, {number}});
}

Value Graph::range(Value end) {
  return add("Range", {number(Type::int64, 0), end, number(Type::int64, 1)});
}

Value Graph::cast(Value value, Type type) {
  if (value.type == type) return value;
  return add("Cast", {value}, {{"to", static_cast<int64_t>(type)}}, type);
}

Value Graph::compare(const std::string& op_type, Value one, Value other) {
  return add(op_type, {one, other}, {}, Type::boolean);
}

Value Graph::where(Value condition, Value yes, Value no) {
  const auto compute_type = compute_type_of("Where", yes.type);
  const auto chosen = push("Where", {condition, cast(yes, compute_type), cast(no, compute_type)},
                           {}, {compute_type});
  return cast(chosen.front(), yes.type);
}

Value Graph::shape_of(Value value) {
  return add("Shape", {value}, {}, Type::int64);
}

void Graph::drop_unused(const std::vector<Value>& outputs) {
  std::set<std::size_t> used;
  for (const auto& output : outputs) used.insert(output.id);
  std::vector<Node> used_nodes;
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    const auto is_used = [&](const Value& value) { return used.count(value.id) > 0; };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), is_used)) continue;
    for (const auto& input : node->inputs) used.insert(input.id);
    used_nodes.push_back(std::move(*node));
  }
  nodes_.assign(std::make_move_iterator(used_nodes.rbegin()),
                std::make_move_iterator(used_nodes.rend()));
}

}  // namespace attend::onnx
