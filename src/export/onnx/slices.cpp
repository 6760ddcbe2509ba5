#include "export/onnx/slices.h"

#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

namespace attend::onnx {

Value slice(Call& call, Value value, int64_t dimension, int64_t start, int64_t end, int64_t step) {
  return slice(call, value, dimension, call.graph().list({start}), call.graph().list({end}), step);
}

Value slice(Call& call, Value value, int64_t dimension, Value start, Value end, int64_t step) {
  auto& graph = call.graph();
  return graph.add("Slice", {value, start, end, graph.list({dimension}), graph.list({step})});
}

Value slice_as_called(Call& call, Value value, int64_t dimension) {
  const auto bound = [&](const char* name, int64_t otherwise) {
    return call.has(name) ? call.integers_value(name) : call.graph().list({otherwise});
  };
  const auto step = call.has("step") ? call.integer("step") : 1;
  return slice(call, value, dimension, bound("start", 0), bound("end", kEnd), step);
}

namespace {

const program::Size& size_of(Call& call, int64_t dimension) {
  return call.sizes("self").at(static_cast<std::size_t>(dimension));
}

void slice_rule(Call& call) {
  const auto is = [&](const char* name, int64_t number) {
    return !call.has(name) || (!call.is_computed(name) && call.integer(name) == number);
  };
  const auto self = call.tensor("self");
  const bool is_whole = is("start", 0) && is("end", kEnd) && is("step", 1);
  call.set_output(is_whole ? self : slice_as_called(call, self, call.dimension("dim")));
}

void narrow(Call& call) {
  auto& graph = call.graph();
  const auto dimension = call.dimension("dim");
  if (!call.is_tensor("start") && !call.is_computed("start") && !call.is_computed("length")) {
    const auto start = call.integer("start");
    const auto end = end_of_narrow(start, call.integer("length"));
    return call.set_output(slice(call, call.tensor("self"), dimension, start, end));
  }
  const auto given = graph.add("Reshape", {call.operand("start", Type::int64), graph.list({1})});
  const auto size = call.size(call.sizes("self").at(static_cast<std::size_t>(dimension)));
  const auto is_negative = graph.compare("Less", given, graph.list({0}));
  const auto start = graph.where(is_negative, graph.add("Add", {given, size}), given);
  const auto end = graph.add("Add", {start, call.integers_value("length")});
  call.set_output(slice(call, call.tensor("self"), dimension, start, end));
}

void select(Call& call) {
  auto& graph = call.graph();
  call.set_output(graph.add("Gather", {call.tensor("self"), call.operand("index", Type::int64)},
                            {{"axis", call.dimension("dim")}}));
}

/// Splits `dimension` of `self` into one part for each output. `lengths`: an int64 tensor.
std::vector<Value> split_into(Call& call, Value lengths, int64_t dimension) {
  const auto self = call.tensor("self");
  if (call.num_outputs() == 1) return {self};
  const std::vector<Type> types(call.num_outputs(), self.type);
  return call.graph().add("Split", {self, lengths}, {{"axis", dimension}}, types);
}

void split(Call& call) {
  if (call.num_outputs() == 1) return call.set_output(call.tensor("self"));
  const auto dimension = call.dimension("dim");
  Sizes lengths;
  for (std::size_t i = 0; i < call.num_outputs(); ++i) {
    lengths.push_back(call.result_sizes(i).at(static_cast<std::size_t>(dimension)));
  }
  const auto parts = split_into(call, call.shape(lengths), dimension);
  for (std::size_t i = 0; i < parts.size(); ++i) call.set_output(parts[i], i);
}

void chunk(Call& call) {
  const auto dimension = call.dimension("dim");
  // Without the attribute num_outputs of opset 18, Split requires equal or given lengths.
  const bool has_num_outputs = call.graph().opset() >= 18;
  if (is_fixed(size_of(call, dimension)) || call.num_outputs() == 1 || !has_num_outputs)
    return split(call);
  // If the size is not divisible by the number of parts, the last part is smaller than the others,
  // both in LibTorch and in ONNX.
  const auto self = call.tensor("self");
  const auto parts = call.graph().add(
      "Split", {self},
      {{"axis", dimension}, {"num_outputs", static_cast<int64_t>(call.num_outputs())}},
      std::vector<Type>(call.num_outputs(), self.type));
  for (std::size_t i = 0; i < parts.size(); ++i) call.set_output(parts[i], i);
}

void unbind(Call& call) {
  const auto dimension = call.dimension("dim");
  const auto ones = call.graph().list(std::vector<int64_t>(call.num_outputs(), 1));
  const auto parts = split_into(call, ones, dimension);
  for (std::size_t i = 0; i < parts.size(); ++i)
    call.set_output(squeeze(call, parts[i], {dimension}), i);
}

void flip(Call& call) {
  auto value = call.tensor("self");
  for (const auto dimension : call.dimensions("dims")) {
    value = slice(call, value, dimension, -1, kBeforeBegin, -1);
  }
  call.set_output(value);
}

void roll(Call& call) {
  auto& graph = call.graph();
  const auto dimensions = call.dimensions("dims");
  if (dimensions.empty()) call.fail("dims must be specified, found an empty list");
  auto value = call.tensor("self");
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    // The elements from index `start` to the end become the first elements. `start` is computed
    // modulo the size, since the shift may exceed the size. A size of 0 is replaced by 1, since
    // integers cannot be divided by 0.
    auto size = call.size(size_of(call, dimensions[i]));
    size = graph.add("Max", {size, graph.list({1})});
    const auto shift = graph.add("Neg", {call.integer_value("shifts", i)});
    const auto start = graph.add("Mod", {shift, size});
    const auto last = slice(call, value, dimensions[i], start, graph.list({kEnd}));
    const auto first = slice(call, value, dimensions[i], graph.list({0}), start);
    value = graph.add("Concat", {last, first}, {{"axis", dimensions[i]}});
  }
  call.set_output(value);
}

Rule triangle(int64_t upper) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto diagonal = call.operand("diagonal", Type::int64);
    call.set_output(graph.add("Trilu", {call.tensor("self"), diagonal}, {{"upper", upper}}));
  };
}

}  // namespace

void add_slice_rules(Rules& rules) {
  rules["slice.Tensor"] = slice_rule;
  rules["narrow.default"] = rules["narrow.Tensor"] = narrow;
  rules["select.int"] = select;
  rules["split.Tensor"] = rules["split.sizes"] = rules["split_with_sizes.default"] = split;
  rules["tensor_split.sections"] = rules["tensor_split.indices"] = split;
  rules["chunk.default"] = chunk;
  // LibTorch's recurrent cells call unsafe_chunk.
  rules["unsafe_chunk.default"] = chunk;
  rules["unsafe_split.Tensor"] = rules["unsafe_split_with_sizes.default"] = split;
  rules["unbind.int"] = unbind;
  rules["flip.default"] = flip;
  rules["roll.default"] = roll;
  rules["tril.default"] = triangle(0);
  rules["triu.default"] = triangle(1);
}

}  // namespace attend::onnx
