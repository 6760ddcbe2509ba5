#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"
#include "export/onnx/slices.h"

#include <string>

namespace attend::onnx {
namespace {

/// Describes how a kind of recurrent layer is translated to an ONNX operator.
struct Kind {
  const char* op_type;
  std::vector<std::size_t> gates;  ///< indices of LibTorch's gates, in the order of ONNX's weights
  std::size_t states;              ///< number of state tensors
  Attributes attributes = {};
  std::string activation = {};  ///< in each direction; empty for ONNX's default
};

/// Reorders the gates of a weight or bias from LibTorch's order to ONNX's order, and adds a leading
/// dimension of size 1 for the direction.
Value reorder_gates(Call& call, Value weight, const Kind& kind) {
  auto& graph = call.graph();
  auto result = weight;
  if (kind.gates.size() > 1) {
    const auto count = static_cast<int64_t>(kind.gates.size());
    const auto parts = graph.add("Split", {weight}, {{"axis", 0}, {"num_outputs", count}},
                                 std::vector<Type>(kind.gates.size(), weight.type));
    std::vector<Value> ordered;
    for (const auto gate : kind.gates) ordered.push_back(parts.at(gate));
    result = graph.add("Concat", ordered, {{"axis", 0}});
  }
  return unsqueeze(call, result, {0});
}

/// Concatenates weights or biases along `dimension`. `directions` contains one tensor per
/// direction of the layer: two tensors if the layer is bidirectional, else one.
Value joined(Call& call, const std::vector<Value>& directions, int64_t dimension) {
  if (directions.size() == 1) return directions.front();
  return call.graph().add("Concat", directions, {{"axis", dimension}});
}

/// Adds the nodes of one layer. `x` is (T, B, I), for sequence length T, batch size B and input
/// size I. Each tensor in `states` is (directions, B, H), for hidden size H. Returns the output,
/// which is (T, B, directions * H), and the new states.
std::vector<Value> run_layer(Call& call, const Kind& kind, Value x,
                             const std::vector<Value>& states, const std::vector<Value>& weights,
                             std::size_t directions) {
  auto& graph = call.graph();
  const auto each = weights.size() / directions;  // tensors per direction: 4 with biases, 2 without
  std::vector<Value> inputs;
  std::vector<Value> hidden;
  std::vector<Value> biases;
  for (std::size_t i = 0; i < directions; ++i) {
    const auto* own = &weights[i * each];
    inputs.push_back(reorder_gates(call, own[0], kind));
    hidden.push_back(reorder_gates(call, own[1], kind));
    if (each < 4) continue;
    biases.push_back(
        graph.add("Concat", {reorder_gates(call, own[2], kind), reorder_gates(call, own[3], kind)},
                  {{"axis", 1}}));
  }
  std::vector<Value> arguments{x, joined(call, inputs, 0), joined(call, hidden, 0),
                               biases.empty() ? Value{} : joined(call, biases, 0), Value{}};
  arguments.insert(arguments.end(), states.begin(), states.end());
  auto attributes = kind.attributes;
  const auto& shape = call.result_sizes(1);
  attributes["hidden_size"] = call.fixed(shape.back(), "the size of the hidden state");
  if (!kind.activation.empty()) {
    attributes["activations"] = std::vector<std::string>(directions, kind.activation);
  }
  attributes["direction"] = directions == 2 ? "bidirectional" : "forward";
  auto results =
      graph.add(kind.op_type, arguments, attributes, std::vector<Type>(1 + kind.states, x.type));
  // (T, directions, B, H) -> (T, B, directions * H)
  const auto transposed = transpose(call, results[0], {0, 2, 1, 3});
  const auto width = static_cast<int64_t>(directions) * shape.back().value;
  results[0] = graph.add("Reshape", {transposed, graph.list({0, 0, width})});
  return results;
}

/// Adds a row of zeros to `value`, which has 3 dimensions, if its dimension 1, the batch, is empty:
/// LSTM and GRU of onnxruntime abort the process for an empty batch. `size` is the batch size.
Value with_row_if_empty(Call& call, Value value, Value size) {
  auto& graph = call.graph();
  const auto missing =
      graph.add("Max", {graph.add("Sub", {graph.list({1}), size}), graph.list({0})});
  const auto pads =
      graph.add("Concat", {graph.list({0, 0, 0, 0}), missing, graph.list({0})}, {{"axis", 0}});
  return graph.add("Pad", {value, pads});
}

Rule recurrent(const Kind& kind) {
  return [=](Call& call) {
    auto& graph = call.graph();
    if (call.boolean("train") && call.real("dropout") > 0) {
      call.fail("dropout in training mode is not supported");
    }
    if (call.rank("input") != 3)
      call.fail("expected a batched input with 3 dimensions, found " +
                std::to_string(call.rank("input")) + " dimensions");
    auto given = kind.states == 1 ? std::vector<Value>{call.tensor("hx")} : call.tensors("hx");
    const auto weights = call.tensors("params");
    const std::size_t directions = call.boolean("bidirectional") ? 2 : 1;
    const auto layers = static_cast<std::size_t>(call.integer("num_layers"));
    const auto each = weights.size() / layers;
    if (each != directions * (call.boolean("has_biases") ? 4 : 2)) {
      call.fail("proj_size is not supported");
    }
    auto x = call.tensor("input");
    if (call.boolean("batch_first")) x = transpose(call, x, {1, 0, 2});
    const auto& batch = call.sizes("input").at(call.boolean("batch_first") ? 0 : 1);
    const bool may_be_empty = call.smallest(batch) < 1;
    if (may_be_empty) {
      x = with_row_if_empty(call, x, call.size(batch));
      for (auto& state : given) state = with_row_if_empty(call, state, call.size(batch));
    }
    const auto without_added_row = [&](Value value) {
      return slice(call, value, 1, graph.list({0}), call.size(batch));
    };
    // states[j][i] is the new value of state tensor j (hidden state or cell state) of layer i.
    std::vector<std::vector<Value>> states(kind.states);
    for (std::size_t i = 0; i < layers; ++i) {
      const auto start = static_cast<int64_t>(i * directions);
      std::vector<Value> before;
      for (const auto& state : given) {
        before.push_back(slice(call, state, 0, start, start + static_cast<int64_t>(directions)));
      }
      const auto first = weights.begin() + static_cast<std::ptrdiff_t>(i * each);
      const auto results = run_layer(
          call, kind, x, before, {first, first + static_cast<std::ptrdiff_t>(each)}, directions);
      x = results[0];
      for (std::size_t j = 0; j < kind.states; ++j) states[j].push_back(results[j + 1]);
    }
    if (may_be_empty) x = without_added_row(x);
    call.set_output(call.boolean("batch_first") ? transpose(call, x, {1, 0, 2}) : x);
    for (std::size_t j = 0; j < kind.states; ++j) {
      const auto state =
          layers == 1 ? states[j].front() : graph.add("Concat", states[j], {{"axis", 0}});
      call.set_output(may_be_empty ? without_added_row(state) : state, j + 1);
    }
  };
}

}  // namespace

void add_recurrent_rules(Rules& rules) {
  rules["lstm.input"] = recurrent({"LSTM", {0, 3, 1, 2}, 2});
  rules["gru.input"] = recurrent({"GRU", {1, 0, 2}, 1, {{"linear_before_reset", 1}}});
  rules["rnn_tanh.input"] = recurrent({"RNN", {0}, 1});
  rules["rnn_relu.input"] = recurrent({"RNN", {0}, 1, {}, "Relu"});
}

}  // namespace attend::onnx
