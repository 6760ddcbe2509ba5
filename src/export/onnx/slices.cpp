#include "export/onnx/rearrange.h"
#include "export/onnx/rules.h"

#include <algorithm>

namespace attend::onnx {

Value slice(Call& call, Value value, int64_t dimension, int64_t start, int64_t end, int64_t step) {
  auto& graph = call.graph();
  return graph.add("Slice", {value, graph.list({start}), graph.list({end}), graph.list({dimension}),
                             graph.list({step})});
}

namespace {

const program::Size& size_of(Call& call, int64_t dimension) {
  return call.sizes("self").at(static_cast<std::size_t>(dimension));
}

void slice_rule(Call& call) {
  const auto start = call.has("start") ? call.integer("start") : 0;
  const auto end = call.has("end") ? call.integer("end") : kEnd;
  const auto step = call.has("step") ? call.integer("step") : 1;
  const auto self = call.tensor("self");
  if (start == 0 && end == kEnd && step == 1) return call.give(self);
  call.give(slice(call, self, call.dimension("dim"), start, end, step));
}

void narrow(Call& call) {
  auto& graph = call.graph();
  const auto dimension = call.dimension("dim");
  const auto length = call.integer("length");
  if (!call.is_tensor("start")) {
    const auto start = call.integer("start");
    // Up to the end, if it is counted from there.
    const auto end = start < 0 && start + length == 0 ? kEnd : start + length;
    return call.give(slice(call, call.tensor("self"), dimension, start, end));
  }
  const auto start = graph.add("Reshape", {call.operand("start", Type::int64), graph.list({1})});
  const auto end = graph.add("Add", {start, graph.list({length})});
  call.give(graph.add("Slice", {call.tensor("self"), start, end, graph.list({dimension})}));
}

void select(Call& call) {
  auto& graph = call.graph();
  call.give(graph.add("Gather",
                      {call.tensor("self"), graph.number(Type::int64, call.integer("index"))},
                      {{"axis", call.dimension("dim")}}));
}

/// The parts that a dimension is cut into, each as long as its result.
std::vector<Value> cut(Call& call, const std::vector<int64_t>& lengths, int64_t dimension) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  if (lengths.size() == 1) return {self};
  const std::vector<Type> types(lengths.size(), self.type);
  return graph.add("Split", {self, graph.list(lengths)}, {{"axis", dimension}}, types);
}

void split(Call& call) {
  const auto dimension = call.dimension("dim");
  std::vector<int64_t> lengths;
  for (std::size_t i = 0; i < call.results(); ++i) {
    const auto& size = call.result_sizes(i).at(static_cast<std::size_t>(dimension));
    if (!is_fixed(size)) call.refuse("it splits a dimension whose size is not fixed");
    lengths.push_back(size.value);
  }
  const auto parts = cut(call, lengths, dimension);
  for (std::size_t i = 0; i < parts.size(); ++i) call.give(parts[i], i);
}

void chunk(Call& call) {
  const auto dimension = call.dimension("dim");
  if (is_fixed(size_of(call, dimension)) || call.results() == 1) return split(call);
  // Both make the last one shorter if it does not come out even.
  const auto self = call.tensor("self");
  const auto parts = call.graph().add(
      "Split", {self}, {{"axis", dimension}, {"num_outputs", static_cast<int64_t>(call.results())}},
      std::vector<Type>(call.results(), self.type));
  for (std::size_t i = 0; i < parts.size(); ++i) call.give(parts[i], i);
}

void unbind(Call& call) {
  const auto dimension = call.dimension("dim");
  const auto parts = cut(call, std::vector<int64_t>(call.results(), 1), dimension);
  for (std::size_t i = 0; i < parts.size(); ++i) call.give(squeeze(call, parts[i], {dimension}), i);
}

void flip(Call& call) {
  auto value = call.tensor("self");
  for (const auto dimension : call.dimensions("dims")) {
    value = slice(call, value, dimension, -1, kBeforeBegin, -1);
  }
  call.give(value);
}

void roll(Call& call) {
  auto& graph = call.graph();
  const auto shifts = call.integers("shifts");
  const auto dimensions = call.dimensions("dims");
  if (dimensions.empty()) call.refuse("it rolls over all dimensions");
  auto value = call.tensor("self");
  for (std::size_t i = 0; i < shifts.size(); ++i) {
    // What is from there on comes first. A shift may be longer than the dimension.
    auto size = call.size(size_of(call, dimensions[i]));
    size = graph.add("Max", {size, graph.list({1})});
    const auto start = graph.add("Mod", {graph.list({-shifts[i]}), size});
    const auto dimension = graph.list({dimensions[i]});
    const auto last = graph.add("Slice", {value, start, graph.list({kEnd}), dimension});
    const auto first = graph.add("Slice", {value, graph.list({0}), start, dimension});
    value = graph.add("Concat", {last, first}, {{"axis", dimensions[i]}});
  }
  call.give(value);
}

Rule triangle(int64_t upper) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto diagonal = graph.number(Type::int64, call.integer("diagonal"));
    call.give(graph.add("Trilu", {call.tensor("self"), diagonal}, {{"upper", upper}}));
  };
}

/// LibTorch has a pair for each dimension, the last one first; ONNX has all fronts, then all ends.
void pad_with(Call& call, const char* argument, const std::string& mode,
              std::optional<Number> value) {
  auto& graph = call.graph();
  const auto given = call.integers(argument);
  const auto rank = static_cast<std::size_t>(call.rank("self"));
  std::vector<int64_t> pads(2 * rank, 0);
  for (std::size_t i = 0; i < given.size() / 2; ++i) {
    pads.at(rank - 1 - i) = given[2 * i];
    pads.at(2 * rank - 1 - i) = given[2 * i + 1];
  }
  const auto self = call.tensor("self");
  std::vector<Value> inputs{self, graph.list(pads)};
  if (value) inputs.push_back(graph.number(self.type, *value));
  call.give(graph.add("Pad", inputs, {{"mode", mode}}));
}

void pad_constant(Call& call) {
  pad_with(call, "pad", "constant", call.has("value") ? call.number("value") : Number(0));
}

/// Around a dimension comes what is at its other end, which Pad learned after opset 18.
void pad_circularly(Call& call) {
  auto& graph = call.graph();
  const auto given = call.integers("pad");
  auto value = call.tensor("self");
  auto dimension = call.rank("self");
  for (std::size_t i = 0; i + 1 < given.size(); i += 2) {
    --dimension;
    if (given[i] < 0 || given[i + 1] < 0) call.refuse("it cuts in circular mode");
    std::vector<Value> parts;
    if (given[i] > 0) parts.push_back(slice(call, value, dimension, -given[i], kEnd));
    parts.push_back(value);
    if (given[i + 1] > 0) parts.push_back(slice(call, value, dimension, 0, given[i + 1]));
    if (parts.size() > 1) value = graph.add("Concat", parts, {{"axis", dimension}});
  }
  call.give(value);
}

void pad(Call& call) {
  const auto mode = call.text("mode");
  if (mode == "constant") return pad_constant(call);
  if (mode == "reflect") return pad_with(call, "pad", "reflect", {});
  if (mode == "replicate") return pad_with(call, "pad", "edge", {});
  pad_circularly(call);
}

/// What the functional interface of LibTorch calls: modes by their numbers in at::padding_mode.
void pad_numbered(Call& call) {
  switch (call.integer("mode")) {
    case 0:
      return pad_with(call, "pad", "reflect", {});
    case 1:
      return pad_with(call, "pad", "edge", {});
    case 2:
      return pad_circularly(call);
    default:
      return pad_constant(call);
  }
}

Rule pad_of_mode(const char* mode) {
  return [=](Call& call) { pad_with(call, "padding", mode, {}); };
}

}  // namespace

void add_slice_rules(Rules& rules) {
  rules["slice.Tensor"] = slice_rule;
  rules["narrow.default"] = rules["narrow.Tensor"] = narrow;
  rules["select.int"] = select;
  rules["split.Tensor"] = rules["split.sizes"] = rules["split_with_sizes.default"] = split;
  rules["chunk.default"] = chunk;
  // As the cells of recurrent layers call them.
  rules["unsafe_chunk.default"] = chunk;
  rules["unsafe_split.Tensor"] = rules["unsafe_split_with_sizes.default"] = split;
  rules["unbind.int"] = unbind;
  rules["flip.default"] = flip;
  rules["roll.default"] = roll;
  rules["tril.default"] = triangle(0);
  rules["triu.default"] = triangle(1);
  rules["constant_pad_nd.default"] = pad_constant;
  rules["pad.default"] = pad;
  rules["_pad_enum.default"] = pad_numbered;
  for (const auto* kind : {"1d", "2d", "3d"}) {
    rules[std::string("reflection_pad") + kind + ".default"] = pad_of_mode("reflect");
    rules[std::string("replication_pad") + kind + ".default"] = pad_of_mode("edge");
  }
}

}  // namespace attend::onnx
