#include "export/onnx/translation.h"

#include "export/onnx/unsupported_operator_error.h"
#include "io/dtypes.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::onnx {

namespace {

const Dtype& dtype_of(const program::TensorMeta& meta) {
  const auto* dtype = find_dtype(&Dtype::schema, meta.dtype);
  if (dtype == nullptr) {
    throw UnsupportedOperatorError(
        fmt::format("dtype {} of torch.export's schema is not supported", meta.dtype));
  }
  return *dtype;
}

Type onnx_type_of(const Dtype& dtype) {
  if (dtype.onnx == 0) {
    throw UnsupportedOperatorError(
        fmt::format("dtype {} is not supported", c10::getDtypeNames(dtype.type).first));
  }
  return static_cast<Type>(dtype.onnx);
}

}  // namespace

bool is_complex(const program::TensorMeta& meta) {
  const auto* dtype = find_dtype(&Dtype::schema, meta.dtype);
  return dtype != nullptr && c10::isComplexType(dtype->type);
}

Type component_type_of(const program::TensorMeta& meta) {
  const auto& dtype = dtype_of(meta);
  if (!c10::isComplexType(dtype.type)) return onnx_type_of(dtype);
  return onnx_type_of(*find_dtype(&Dtype::type, c10::toRealValueType(dtype.type)));
}

Type type_of(const program::TensorMeta& meta) {
  return onnx_type_of(dtype_of(meta));
}

void Translation::add_dynamic_sizes(Value value, const Sizes& sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (is_fixed(sizes[i])) continue;
    dynamic_sizes.emplace(sizes[i].expression, std::pair(value, static_cast<int64_t>(i)));
  }
}

bool Translation::is_readable(const program::Expression& expression) const {
  const auto& arguments = expression.arguments();
  if (dynamic_sizes.contains(expression) || expression.is(program::Expression::Kind::integer))
    return true;
  return !arguments.empty() &&
         std::all_of(arguments.begin(), arguments.end(),
                     [&](const auto& argument) { return is_readable(argument); });
}

Value Translation::size(const program::Size& size) {
  if (is_fixed(size)) return graph.list({size.value});
  const auto known = sizes_read.find(size.expression);
  if (known != sizes_read.end()) return known->second;
  const auto found = dynamic_sizes.find(size.expression);
  if (found == dynamic_sizes.end()) {
    const auto value = computed(size.expression);
    sizes_read.emplace(size.expression, value);
    return value;
  }
  const auto& [value, dimension] = found->second;
  const auto read =
      graph.add("Shape", {value}, {{"start", dimension}, {"end", dimension + 1}}, Type::int64);
  sizes_read.emplace(size.expression, read);
  return read;
}

/// Computes a size from the sizes in its expression.
Value Translation::computed(const program::Expression& expression) {
  if (expression.is(program::Expression::Kind::integer)) return graph.list({expression.integer()});
  std::vector<Value> arguments;
  for (const auto& argument : expression.arguments()) arguments.push_back(size({0, argument}));
  if (arguments.empty()) {
    throw UnsupportedOperatorError(fmt::format(
        "it uses the dynamic size {}, but no input and no earlier tensor has a dimension of this "
        "size",
        text_of(program::Size{0, expression})));
  }
  auto result = arguments.front();
  if (expression.is(program::Expression::Kind::sqrt)) {
    return graph.cast(graph.add("Sqrt", {graph.cast(result, Type::float64)}), Type::int64);
  }
  static const std::map<program::Expression::Kind, const char*> operators{
      {program::Expression::Kind::add, "Add"},
      {program::Expression::Kind::mul, "Mul"},
      {program::Expression::Kind::mod, "Mod"},
      {program::Expression::Kind::min, "Min"},
      {program::Expression::Kind::max, "Max"}};
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (expression.is(program::Expression::Kind::floor_div)) {  // Div rounds towards 0
      const auto remainder = graph.add("Mod", {result, arguments[i]});
      result = graph.add("Div", {graph.add("Sub", {result, remainder}), arguments[i]});
    } else {
      result = graph.add(operators.at(expression.kind()), {result, arguments[i]});
    }
  }
  return result;
}

Value Translation::range(const program::Size& size) {
  return graph.range(graph.add("Squeeze", {this->size(size)}));
}

Value Translation::shape(const Sizes& sizes) {
  std::vector<int64_t> fixed;
  for (const auto& size : sizes) {
    if (is_fixed(size)) fixed.push_back(size.value);
  }
  if (fixed.size() == sizes.size()) return graph.list(fixed);
  std::vector<Value> parts;
  for (const auto& each : sizes) parts.push_back(size(each));
  return graph.add("Concat", parts, {{"axis", 0}});
}

Value Translation::reshape(Value value, const Sizes& from, const Sizes& to) {
  // Numbers for Reshape's input `shape`. 0 stands for the size of `value` at the same index. -1
  // stands for a size that Reshape infers from the number of elements.
  std::vector<int64_t> numbers;
  std::size_t num_inferred = 0;
  const auto is_empty = [](const program::Size& size) { return is_fixed(size) && size.value == 0; };
  const bool has_zero = std::any_of(to.begin(), to.end(), is_empty);
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (is_fixed(to[i])) {
      numbers.push_back(to[i].value);
    } else if (!has_zero && i < from.size() && same(from[i], to[i])) {
      numbers.push_back(0);
    } else {
      numbers.push_back(-1);
      ++num_inferred;
    }
  }
  const auto can_read = [&](const program::Size& size) {
    return is_fixed(size) || is_readable(size.expression);
  };
  // Reshape cannot infer a size, written as -1, if another size is 0 at run time. If another size
  // is dynamic (`has_others`), it may be 0. In this case, all sizes are read from earlier tensors.
  // A size that cannot be read is still inferred, and Reshape fails if another size is 0.
  const bool copies = std::find(numbers.begin(), numbers.end(), 0) != numbers.end();
  const bool has_others = num_inferred > 1 || (num_inferred == 1 && copies);
  if (has_zero || (has_others && std::all_of(to.begin(), to.end(), can_read))) {
    return graph.add("Reshape", {value, shape(to)}, {{"allowzero", 1}});
  }
  if (num_inferred <= 1) return graph.add("Reshape", {value, graph.list(numbers)});
  std::vector<Value> parts;
  bool inferred = false;  // true after -1 has been used for a size that cannot be read
  for (std::size_t i = 0; i < to.size(); ++i) {
    const bool stays = numbers[i] != -1 || (!inferred && !can_read(to[i]));
    inferred = inferred || (stays && numbers[i] == -1);
    parts.push_back(stays ? graph.list({numbers[i]}) : size(to[i]));
  }
  return graph.add("Reshape", {value, graph.add("Concat", parts, {{"axis", 0}})});
}

}  // namespace attend::onnx
