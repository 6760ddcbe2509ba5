#include "export/onnx/indexing.h"

#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <algorithm>

namespace attend::onnx {

Value along(Call& call, Value index, int64_t dimension, int64_t rank) {
  std::vector<int64_t> shape(static_cast<std::size_t>(rank), 1);
  shape.at(static_cast<std::size_t>(dimension)) = -1;
  return call.graph().add("Reshape", {index, call.graph().list(shape)});
}

Indices read_indices(Call& call) {
  auto& graph = call.graph();
  const auto names = call.optional_tensors("indices");
  const auto values = call.tensors("indices");
  struct Index {
    Value value;
    int64_t rank;
  };
  Indices read;
  std::vector<Index> indices;
  std::vector<int64_t> dimensions;
  int64_t next = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!names[i]) {
      ++next;
      continue;
    }
    const auto rank = static_cast<int64_t>(call.sizes_of_tensor(*names[i]).size());
    if (values[i].type != Type::boolean && values[i].type != Type::uint8) {
      indices.push_back({graph.cast(values[i], Type::int64), rank});
      dimensions.push_back(next++);
      continue;
    }
    const auto mask = graph.cast(values[i], Type::boolean);
    const auto positions = graph.add("NonZero", {mask}, {}, Type::int64);  // (rank, n)
    for (int64_t j = 0; j < rank; ++j) {
      const auto row = graph.number(Type::int64, j);
      indices.push_back({graph.add("Gather", {positions, row}, {{"axis", 0}}), 1});
      dimensions.push_back(next++);
    }
  }
  for (const auto& index : indices) read.rank = std::max(read.rank, index.rank);
  read.indexed = dimensions.size();
  for (std::size_t i = 1; i < dimensions.size(); ++i) {
    if (dimensions[i] != dimensions[i - 1] + 1) read.is_adjacent = false;
  }
  read.order = dimensions;
  for (int64_t i = 0; i < call.rank("self"); ++i) {
    if (std::find(dimensions.begin(), dimensions.end(), i) == dimensions.end()) {
      read.order.push_back(i);
    }
  }
  // The indices are broadcast to one shape, which is the shape of their sum, and concatenated along
  // a new last dimension.
  std::vector<Value> columns;
  auto sum = indices.front().value;
  for (std::size_t i = 1; i < indices.size(); ++i) {
    sum = graph.add("Add", {sum, indices[i].value});
  }
  const auto shape = graph.shape_of(sum);
  for (const auto& index : indices) {
    const auto whole =
        indices.size() == 1 ? index.value : graph.add("Expand", {index.value, shape});
    columns.push_back(unsqueeze(call, whole, {read.rank}));
  }
  read.indices =
      columns.size() == 1 ? columns.front() : graph.add("Concat", columns, {{"axis", read.rank}});
  return read;
}

namespace {

bool is_sorted(const std::vector<int64_t>& order) {
  return std::is_sorted(order.begin(), order.end());
}

void index(Call& call) {
  auto& graph = call.graph();
  const auto names = call.optional_tensors("indices");
  const auto values = call.tensors("indices");
  const auto given = std::count_if(names.begin(), names.end(), [](const auto& n) { return !!n; });
  const auto first = static_cast<std::size_t>(
      std::find_if(names.begin(), names.end(), [](const auto& n) { return !!n; }) - names.begin());
  if (given == 0) return call.set_output(call.tensor("self"));
  if (given == 1 && (values[first].type == Type::int64 || values[first].type == Type::int32)) {
    return call.set_output(graph.add("Gather", {call.tensor("self"), values[first]},
                                     {{"axis", static_cast<int64_t>(first)}}));
  }
  const auto read = read_indices(call);
  auto self = call.tensor("self");
  if (!is_sorted(read.order)) self = transpose(call, self, read.order);
  auto found = graph.add("GatherND", {self, read.indices});
  const auto before = read.order.front();  // number of dimensions before the indexed ones
  if (read.is_adjacent && before > 0) {
    // (index..., before..., after...) -> (before..., index..., after...)
    auto order = all_dimensions(call.result_rank());
    std::rotate(order.begin(), order.begin() + read.rank, order.begin() + read.rank + before);
    found = transpose(call, found, order);
  }
  call.set_output(found);
}

void index_select(Call& call) {
  auto& graph = call.graph();
  auto self = call.tensor("self");
  auto index = call.tensor("index");
  if (call.rank("index") == 0) index = unsqueeze(call, index, {0});
  if (call.rank("self") == 0) return call.set_output(self);
  call.set_output(graph.add("Gather", {self, index}, {{"axis", call.dimension("dim")}}));
}

void embedding(Call& call) {
  call.set_output(
      call.graph().add("Gather", {call.tensor("weight"), call.tensor("indices")}, {{"axis", 0}}));
}

void gather(Call& call) {
  const auto self = call.tensor("self");
  if (call.rank("self") == 0) {
    return call.set_output(call.reshape(self, {}, call.result_sizes()));
  }
  call.set_output(call.graph().add("GatherElements", {self, call.operand("index", Type::int64)},
                                   {{"axis", call.dimension("dim")}}));
}

void take_along_dimension(Call& call) {
  auto& graph = call.graph();
  auto self = call.tensor("self");
  auto indices = call.operand("indices", Type::int64);
  if (!call.has("dim")) {
    self = graph.add("Reshape", {self, graph.list({-1})});
    indices = graph.add("Reshape", {indices, graph.list({-1})});
    return call.set_output(graph.add("GatherElements", {self, indices}, {{"axis", 0}}));
  }
  const auto dimension = call.dimension("dim");
  auto sizes = call.result_sizes();
  indices = graph.add("Expand", {indices, call.shape(sizes)});
  const auto at = static_cast<std::size_t>(dimension);
  sizes.at(at) = call.sizes("self").at(at);
  self = graph.add("Expand", {self, call.shape(sizes)});
  call.set_output(graph.add("GatherElements", {self, indices}, {{"axis", dimension}}));
}

void nonzero(Call& call) {
  auto& graph = call.graph();
  const auto positions =
      graph.add("NonZero", {call.operand("self", Type::boolean)}, {}, Type::int64);
  call.set_output(transpose(call, positions, {1, 0}));
}

/// Translates where(condition): the indices of the true elements, one output per dimension.
void nonzero_tuple(Call& call) {
  auto& graph = call.graph();
  auto condition = call.operand(call.has("condition") ? "condition" : "self", Type::boolean);
  const auto positions = graph.add("NonZero", {condition}, {}, Type::int64);  // (rank, n)
  for (std::size_t i = 0; i < call.num_outputs(); ++i) {
    const auto row = graph.number(Type::int64, static_cast<int64_t>(i));
    call.set_output(graph.add("Gather", {positions, row}, {{"axis", 0}}), i);
  }
}

/// Returns index i `repeats[i]` times, for each i. `repeats` is an int64 tensor of shape (n).
Value repeated_indices(Call& call, Value repeats) {
  auto& graph = call.graph();
  // Row i of the mask begins with repeats[i] true elements. NonZero returns their rows in order.
  const auto zero = graph.list({0});
  const auto longest =
      reduce(call, "ReduceMax", graph.add("Concat", {repeats, zero}, {{"axis", 0}}), {0}, false);
  const auto mask = graph.compare("Less", graph.range(longest), unsqueeze(call, repeats, {1}));
  const auto positions = graph.add("NonZero", {mask}, {}, Type::int64);  // (2, sum of repeats)
  return graph.add("Gather", {positions, graph.number(Type::int64, 0)}, {{"axis", 0}});
}

void repeat_interleave_by_tensor(Call& call) {
  auto& graph = call.graph();
  auto repeats = call.operand("repeats", Type::int64);
  if (!call.has("self")) return call.set_output(repeated_indices(call, repeats));
  auto self = call.tensor("self");
  auto dimension = int64_t{0};
  if (call.has("dim")) {
    dimension = call.dimension("dim");
  } else {
    self = graph.add("Reshape", {self, graph.list({-1})});
  }
  // One number of repeats may be given for all elements.
  const auto length =
      graph.add("Shape", {self}, {{"start", dimension}, {"end", dimension + 1}}, Type::int64);
  if (call.rank("repeats") == 0) repeats = unsqueeze(call, repeats, {0});
  repeats = graph.add("Expand", {repeats, length});
  call.set_output(
      graph.add("Gather", {self, repeated_indices(call, repeats)}, {{"axis", dimension}}));
}

void masked_select(Call& call) {
  auto& graph = call.graph();
  const auto self = call.tensor("self");
  const auto mask = call.operand("mask", Type::boolean);
  const auto expanded = [&](Value value, Value other) {
    const auto shape = graph.shape_of(other);
    return graph.add("Expand", {value, shape});
  };
  // `self` and `mask` are broadcast to a common shape. The ONNX operator Expand broadcasts in both
  // directions, so `values` has the common shape. `condition` is expanded to the shape of `values`.
  const auto values = expanded(self, mask);
  const auto condition = expanded(mask, values);
  const auto flat = graph.add("Reshape", {condition, graph.list({-1})});
  call.set_output(graph.add("Compress", {values, flat}));
}

void one_hot(Call& call) {
  auto& graph = call.graph();
  if (!call.is_computed("num_classes") && call.integer("num_classes") < 0) {
    call.fail("num_classes must be specified, found -1");
  }
  const auto all = graph.range(squeeze(call, call.integers_value("num_classes"), {0}));
  const auto self = unsqueeze(call, call.operand("self", Type::int64), {call.rank("self")});
  call.set_output(graph.compare("Equal", self, all));
}

}  // namespace

void add_indexing_rules(Rules& rules) {
  rules["index.Tensor"] = index;
  rules["index_select.default"] = index_select;
  rules["embedding.default"] = embedding;
  rules["gather.default"] = gather;
  rules["take_along_dim.default"] = take_along_dimension;
  rules["nonzero.default"] = nonzero;
  rules["where.default"] = rules["nonzero_numpy.default"] = nonzero_tuple;
  rules["repeat_interleave.self_Tensor"] = rules["repeat_interleave.Tensor"] =
      repeat_interleave_by_tensor;
  rules["masked_select.default"] = masked_select;
  rules["one_hot.default"] = one_hot;
}

}  // namespace attend::onnx
