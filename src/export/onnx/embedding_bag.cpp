#include "export/onnx/indexing.h"
#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"
#include "export/onnx/slices.h"

#include <limits>

namespace attend::onnx {
namespace {

/// Values of the argument `mode`.
enum class Mode : int64_t { sum, mean, max };

/// Translates embedding_bag: the sum, mean or maximum of the rows of `weight` for each bag of
/// indices. `offsets` contains the position of the first index of each bag. Only the first output
/// is supported; the others are for the backward pass.
void embedding_bag(Call& call) {
  auto& graph = call.graph();
  const auto mode = static_cast<Mode>(call.integer("mode"));
  const auto weight = call.tensor("weight");  // (V, E)
  const auto type = at_least_float32(weight.type);
  const auto indices = call.operand("indices", Type::int64);  // (n)
  auto offsets = call.operand("offsets", Type::int64);
  if (call.boolean("include_last_offset")) offsets = slice(call, offsets, 0, 0, -1);
  // The bag of an index is the last one that begins at or before its position.
  const auto length = graph.add("Squeeze", {graph.shape_of(indices)});
  const auto positions = unsqueeze(call, graph.range(length), {1});
  const auto begins = graph.cast(graph.compare("GreaterOrEqual", positions, offsets), Type::int64);
  const auto bags = graph.add("Sub", {reduce(call, "ReduceSum", begins, {1}, true),
                                      graph.number(Type::int64, 1)});                   // (n, 1)
  auto rows = graph.cast(graph.add("Gather", {weight, indices}, {{"axis", 0}}), type);  // (n, E)
  if (call.has("per_sample_weights")) {
    const auto factors = unsqueeze(call, call.operand("per_sample_weights", type), {1});
    rows = graph.add("Mul", {rows, factors});
  }
  const auto zero = graph.number(type, 0);
  const auto one = graph.number(type, 1);
  const auto neutral =
      mode == Mode::max ? graph.number(type, -std::numeric_limits<double>::infinity()) : zero;
  auto ones = graph.add("Expand", {one, graph.shape_of(bags)});  // 1 for each index that counts
  if (call.has("padding_idx")) {
    auto index = call.integer("padding_idx");
    if (index < 0) index += call.fixed(call.sizes("weight").at(0), "the number of embeddings");
    const auto padding = graph.number(Type::int64, index);
    const auto is_padding = unsqueeze(call, graph.compare("Equal", indices, padding), {1});
    rows = graph.where(is_padding, neutral, rows);
    ones = graph.where(is_padding, zero, ones);
  }
  const auto num_bags = graph.shape_of(offsets);
  const auto scatter = [&](Value start, Value width, Value updates, const char* reduction) {
    const auto shape = graph.add("Concat", {num_bags, width}, {{"axis", 0}});
    const auto target = graph.add("Expand", {start, shape});
    const auto index = graph.add("Expand", {bags, graph.shape_of(updates)});
    return graph.add("ScatterElements", {target, index, updates},
                     {{"axis", 0}, {"reduction", reduction}});
  };
  const auto width = call.size(call.sizes("weight").at(1));
  const auto found = scatter(neutral, width, rows, mode == Mode::max ? "max" : "add");
  if (mode == Mode::sum) return call.set_output(found);
  const auto counts = scatter(zero, graph.list({1}), ones, "add");  // (bags, 1)
  if (mode == Mode::mean)
    return call.set_output(graph.add("Div", {found, graph.add("Max", {counts, one})}));
  const auto is_empty = graph.compare("Equal", counts, zero);
  call.set_output(graph.where(is_empty, zero, found));
}

}  // namespace

void add_embedding_bag_rules(Rules& rules) {
  rules["embedding_bag.default"] = rules["embedding_bag.padding_idx"] = embedding_bag;
}

}  // namespace attend::onnx
