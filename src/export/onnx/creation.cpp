#include "export/onnx/rules.h"

#include <cmath>

namespace attend::onnx {
namespace {

/// Returns a tensor of the output's shape, filled with a value of shape ().
Value filled(Call& call, Value one) {
  auto& graph = call.graph();
  if (call.result_rank() == 0) return one;
  return graph.add("Expand", {one, call.shape(call.result_sizes())});
}

Rule fill_with(int64_t number) {
  return [=](Call& call) {
    call.set_output(filled(call, call.graph().number(call.result_type(), number)));
  };
}

Rule fill_with(const char* argument) {
  return [=](Call& call) {
    call.set_output(filled(call, call.operand(argument, call.result_type())));
  };
}

/// Returns the translation rule of operators such as zeros_like, which return a tensor of the shape
/// of `self`. The tensor is filled with `number` or, if `number` is nullopt, with the operator's
/// argument `fill_value` or `value`.
Rule fill_like(std::optional<int64_t> number) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto type = call.result_type();
    const auto value = number ? graph.number(type, *number)
                              : call.operand(call.has("fill_value") ? "fill_value" : "value", type);
    const auto shape = graph.shape_of(call.tensor("self"));
    call.set_output(graph.add("Expand", {value, shape}));
  };
}

void copy(Call& call) {
  auto& graph = call.graph();
  const auto shape = graph.shape_of(call.tensor("self"));
  call.set_output(graph.add("Expand", {call.operand("src", call.result_type()), shape}));
}

/// Sets the output to a 1-dimensional constant. Element i is `number_at(i)`.
void set_constant(Call& call, const std::function<Number(int64_t)>& number_at) {
  const auto count = call.result_sizes().at(0).value;
  std::vector<Number> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(number_at(i));
  call.set_output(call.graph().constant({call.result_type(), {count}, std::move(numbers)}));
}

/// Sets the output to begin + i * step for each index i. `begin` and `step` have shape ().
void set_range(Call& call, Value begin, Value step) {
  auto& graph = call.graph();
  const auto indices = graph.cast(call.range(call.result_sizes().at(0)), begin.type);
  call.set_output(graph.add("Add", {graph.add("Mul", {indices, step}), begin}));
}

void arange(Call& call) {
  if (!is_fixed(call.result_sizes().at(0)) || call.is_computed("start")) {
    auto& graph = call.graph();
    const auto type = call.result_type();
    return set_range(call, call.has("start") ? call.operand("start", type) : graph.number(type, 0),
                     call.has("step") ? call.operand("step", type) : graph.number(type, 1));
  }
  const auto start = call.has("start") ? call.number("start") : Number(0);
  const auto step = call.has("step") ? call.number("step") : Number(1);
  const bool whole = !start.is_real && !step.is_real;
  set_constant(call, [&](int64_t i) {
    return whole ? Number(start.integer + i * step.integer)
                 : Number(start.real + static_cast<double>(i) * step.real);
  });
}

void linspace(Call& call) {
  const auto& size = call.result_sizes().at(0);
  if (!is_fixed(size) || call.is_computed("start") || call.is_computed("end")) {
    auto& graph = call.graph();
    const auto first = call.operand("start", Type::float64);
    const auto count = graph.add("Squeeze", {call.size(size)});
    const auto one = graph.number(Type::int64, 1);
    const auto last = graph.add("Max", {graph.add("Sub", {count, one}), one});
    const auto length = graph.add("Sub", {call.operand("end", Type::float64), first});
    return set_range(call, first, graph.add("Div", {length, graph.cast(last, Type::float64)}));
  }
  const auto start = call.real("start");
  const auto end = call.real("end");
  const auto last = std::max<int64_t>(call.integer("steps") - 1, 1);
  set_constant(call, [&](int64_t i) {
    return Number(start + (end - start) * static_cast<double>(i) / static_cast<double>(last));
  });
}

/// Returns the translation rule of a window of cosines: offset - (1 - offset) * cos(2*pi*i / n). A
/// periodic window, the default, is a window of n = window_length + 1 elements without its last.
Rule cosine_window(double offset) {
  return [=](Call& call) {
    const auto length = call.integer("window_length");
    const bool is_periodic = !call.has("periodic") || call.boolean("periodic");
    const auto period = static_cast<double>(is_periodic ? length : length - 1);
    set_constant(call, [&](int64_t i) {
      if (length == 1) return Number(1.0);
      return Number(offset - (1 - offset) * std::cos(2 * M_PI * static_cast<double>(i) / period));
    });
  };
}

void eye(Call& call) {
  auto& graph = call.graph();
  // The matrix is computed at run time, since a large constant would make the file large.
  const auto zeros =
      graph.add("Expand", {graph.number(Type::float32, 0), call.shape(call.result_sizes())});
  call.set_output(graph.add("EyeLike", {zeros}));
}

/// Returns the translation rule of the indices (i, j) of a matrix for which `comparison` is true of
/// j - i and `offset`.
Rule triangle_indices(const char* comparison) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto positions = [&](const char* name) {
      return graph.range(graph.add("Squeeze", {call.integers_value(name)}));
    };
    const auto rows = graph.add("Unsqueeze", {positions("row"), graph.list({1})});
    const auto distance = graph.add("Sub", {positions("col"), rows});  // (rows, columns)
    const auto offset = call.operand("offset", Type::int64);
    const auto is_inside = graph.compare(comparison, distance, offset);
    call.set_output(graph.add("NonZero", {is_inside}, {}, Type::int64));
  };
}

}  // namespace

void add_creation_rules(Rules& rules) {
  rules["zeros.default"] = rules["new_zeros.default"] = fill_with(int64_t{0});
  // In LibTorch, the operator `empty` returns uninitialized memory. In the ONNX file, it returns
  // zeros.
  rules["empty.memory_format"] = rules["new_empty.default"] = fill_with(int64_t{0});
  rules["ones.default"] = rules["new_ones.default"] = fill_with(int64_t{1});
  rules["full.default"] = rules["new_full.default"] = fill_with("fill_value");
  rules["scalar_tensor.default"] = fill_with("s");
  rules["zeros_like.default"] = rules["empty_like.default"] = rules["zero.default"] = fill_like(0);
  rules["ones_like.default"] = fill_like(1);
  rules["full_like.default"] = rules["fill.Scalar"] = rules["fill.Tensor"] = fill_like({});
  rules["copy.default"] = copy;
  rules["arange.default"] = rules["arange.start"] = rules["arange.start_step"] = arange;
  rules["linspace.default"] = linspace;
  rules["hann_window.default"] = rules["hann_window.periodic"] = cosine_window(0.5);
  rules["hamming_window.default"] = rules["hamming_window.periodic"] = cosine_window(0.54);
  rules["eye.default"] = rules["eye.m"] = eye;
  rules["tril_indices.default"] = triangle_indices("LessOrEqual");
  rules["triu_indices.default"] = triangle_indices("GreaterOrEqual");
}

}  // namespace attend::onnx
