#include "export/onnx/rules.h"
#include "export/onnx/slices.h"

namespace attend::onnx {
namespace {

/// Adds a Pad node. `argument` is the name of the call's argument that contains the padding.
/// Converts the padding from LibTorch's order to ONNX's order. LibTorch's order is one pair (begin,
/// end) per dimension, starting with the last dimension. ONNX's order is `begin` of all dimensions,
/// then `end` of all dimensions.
void pad_with(Call& call, const char* argument, const std::string& mode,
              std::optional<Number> value) {
  auto& graph = call.graph();
  const auto rank = static_cast<std::size_t>(call.rank("self"));
  const auto self = call.tensor("self");
  // Index of each pad in LibTorch's list, or -1 for a dimension that is not padded.
  std::vector<int64_t> order(2 * rank, -1);
  const auto count = static_cast<int64_t>(call.length(argument));
  for (int64_t i = 0; i < count; ++i) {
    const auto dimension = rank - 1 - static_cast<std::size_t>(i / 2);
    order.at(i % 2 == 0 ? dimension : rank + dimension) = i;
  }
  if (!call.is_computed(argument)) {
    const auto numbers = call.integers(argument);
    for (auto& index : order) index = index < 0 ? 0 : numbers[static_cast<std::size_t>(index)];
  }
  auto pads = graph.list(order);
  if (call.is_computed(argument)) {
    // Gather reads the zero at the end for the index -1.
    const auto zero = graph.list({0});
    const auto given = graph.add("Concat", {call.integers_value(argument), zero}, {{"axis", 0}});
    pads = graph.add("Gather", {given, pads}, {{"axis", 0}});
  }
  std::vector<Value> inputs{self, pads};
  if (value) inputs.push_back(graph.number(self.type, *value));
  call.set_output(graph.add("Pad", inputs, {{"mode", mode}}));
}

void pad_constant(Call& call) {
  pad_with(call, "pad", "constant", call.has("value") ? call.number("value") : Number(0));
}

/// Pads circularly with Slice and Concat nodes, since Pad supports circular padding (the mode wrap)
/// only in opset 19 and later.
void pad_circularly(Call& call) {
  auto& graph = call.graph();
  if (!call.is_computed("pad")) {
    const auto given = call.integers("pad");
    if (std::any_of(given.begin(), given.end(), [](int64_t pad) { return pad < 0; })) {
      call.fail("negative padding in circular mode is not supported");
    }
  }
  auto value = call.tensor("self");
  auto dimension = call.rank("self");
  for (std::size_t i = 0; i + 1 < call.length("pad"); i += 2) {
    --dimension;
    const auto size = call.size(call.sizes("self").at(static_cast<std::size_t>(dimension)));
    const auto begin = graph.add("Sub", {size, call.integer_value("pad", i)});
    const auto before = slice(call, value, dimension, begin, graph.list({kEnd}));
    const auto after =
        slice(call, value, dimension, graph.list({0}), call.integer_value("pad", i + 1));
    value = graph.add("Concat", {before, value, after}, {{"axis", dimension}});
  }
  call.set_output(value);
}

void pad(Call& call) {
  const auto mode = call.string("mode");
  if (mode == "constant") return pad_constant(call);
  if (mode == "reflect") return pad_with(call, "pad", "reflect", {});
  if (mode == "replicate") return pad_with(call, "pad", "edge", {});
  pad_circularly(call);
}

/// Translates aten::_pad_enum. Its argument `mode` is a value of the enum at::padding_mode.
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

void add_padding_rules(Rules& rules) {
  rules["constant_pad_nd.default"] = pad_constant;
  rules["pad.default"] = pad;
  rules["_pad_enum.default"] = pad_numbered;
  for (const auto* kind : {"1d", "2d", "3d"}) {
    rules[std::string("reflection_pad") + kind + ".default"] = pad_of_mode("reflect");
    rules[std::string("replication_pad") + kind + ".default"] = pad_of_mode("edge");
  }
}

}  // namespace attend::onnx
