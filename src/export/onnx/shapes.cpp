#include "export/onnx/shapes.h"

#include "export/onnx/indexing.h"
#include "export/onnx/rules.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>

namespace attend::onnx {

Value transpose(Call& call, Value value, const std::vector<int64_t>& order) {
  return call.graph().add("Transpose", {value}, {{"perm", order}});
}

Value swap(Call& call, Value value, int64_t rank, int64_t one, int64_t other) {
  auto order = all_dimensions(rank);
  std::swap(order.at(static_cast<std::size_t>(one)), order.at(static_cast<std::size_t>(other)));
  return transpose(call, value, order);
}

Value unsqueeze(Call& call, Value value, const std::vector<int64_t>& dimensions) {
  return call.graph().add("Unsqueeze", {value, call.graph().list(dimensions)});
}

Value squeeze(Call& call, Value value, const std::vector<int64_t>& dimensions) {
  return call.graph().add("Squeeze", {value, call.graph().list(dimensions)});
}

namespace {

/// Translates the operators in kReshapings, which change only the shape.
void reshape(Call& call) {
  call.set_output(call.reshape(call.tensor("self"), call.sizes("self"), call.result_sizes()));
}

/// Translates operators that return `self`, unchanged or cast to the dtype of the output.
/// `set_output` casts.
void same_tensor(Call& call) {
  call.set_output(call.tensor("self"));
}

void expand(Call& call) {
  auto& graph = call.graph();
  if (call.is_computed("size")) {
    // A computed size may be 0, but not -1.
    const auto given = call.integers_value("size");
    const auto is_unchanged = graph.compare("Less", given, graph.list({0}));
    const auto shape = graph.where(is_unchanged, graph.list({1}), given);
    return call.set_output(graph.add("Expand", {call.tensor("self"), shape}));
  }
  auto sizes = call.integers("size");
  // -1 in LibTorch's expand, and 1 in ONNX's Expand, leave the size of a dimension unchanged.
  std::replace(sizes.begin(), sizes.end(), int64_t{-1}, int64_t{1});
  call.set_output(graph.add("Expand", {call.tensor("self"), graph.list(sizes)}));
}

void expand_as(Call& call) {
  auto& graph = call.graph();
  const auto shape = graph.shape_of(call.tensor("other"));
  call.set_output(graph.add("Expand", {call.tensor("self"), shape}));
}

void broadcast_tensors(Call& call) {
  const auto tensors = call.tensors("tensors");
  const auto shape = call.shape(call.result_sizes());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    call.set_output(call.graph().add("Expand", {tensors[i], shape}), i);
  }
}

/// Translates meshgrid: tensor i lies along dimension i of the outputs or, for the indexing "xy",
/// along dimension 1 - i for the first two.
void meshgrid(Call& call) {
  auto& graph = call.graph();
  const auto tensors = call.tensors("tensors");
  const bool swaps = call.has("indexing") && call.string("indexing") == "xy" && tensors.size() > 1;
  const auto dimension_of = [&](std::size_t i) { return swaps && i < 2 ? 1 - i : i; };
  std::vector<Value> flat, sizes(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    flat.push_back(graph.add("Reshape", {tensors[i], graph.list({-1})}));
    sizes.at(dimension_of(i)) = graph.shape_of(flat.back());
  }
  const auto shape = graph.add("Concat", sizes, {{"axis", 0}});
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const auto column =
        along(call, flat[i], static_cast<int64_t>(dimension_of(i)), call.result_rank());
    call.set_output(graph.add("Expand", {column, shape}), i);
  }
}

void squeeze_rule(Call& call) {
  const auto& sizes = call.sizes("self");
  const auto wanted = call.has("dim") ? call.dimensions("dim") : all_dimensions(call.rank("self"));
  std::vector<int64_t> ones;
  for (const auto dimension : wanted) {
    if (sizes.empty()) break;
    const auto& size = sizes.at(static_cast<std::size_t>(dimension));
    if (is_fixed(size) && size.value == 1) ones.push_back(dimension);
  }
  const auto self = call.tensor("self");
  call.set_output(ones.empty() ? self : squeeze(call, self, ones));
}

void unsqueeze_rule(Call& call) {
  const auto dimension = c10::maybe_wrap_dim(call.integer("dim"), call.rank("self") + 1);
  call.set_output(unsqueeze(call, call.tensor("self"), {dimension}));
}

void swap_dimensions(Call& call) {
  const auto self = call.tensor("self");
  if (call.rank("self") == 0) return call.set_output(self);
  call.set_output(
      swap(call, self, call.rank("self"), call.dimension("dim0"), call.dimension("dim1")));
}

void swap_last(Call& call) {
  const auto rank = call.rank("self");
  const auto self = call.tensor("self");
  call.set_output(rank < 2 ? self : swap(call, self, rank, rank - 2, rank - 1));
}

void reverse_dimensions(Call& call) {
  auto order = all_dimensions(call.rank("self"));
  std::reverse(order.begin(), order.end());
  call.set_output(transpose(call, call.tensor("self"), order));
}

void permute(Call& call) {
  call.set_output(transpose(call, call.tensor("self"), call.dimensions("dims")));
}

void move_dimensions(Call& call) {
  const auto rank = call.rank("self");
  const auto from = call.dimensions("source");
  const auto to = call.dimensions("destination");
  std::vector<int64_t> order(static_cast<std::size_t>(rank), -1);
  for (std::size_t i = 0; i < from.size(); ++i) order.at(static_cast<std::size_t>(to[i])) = from[i];
  int64_t next = 0;
  for (auto& dimension : order) {
    if (dimension >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    dimension = next++;
  }
  call.set_output(transpose(call, call.tensor("self"), order));
}

/// Returns the argument `dim` of cat or stack as a non-negative dimension of the output.
int64_t joined_dimension(Call& call) {
  const auto dimension = call.has("dim") ? call.integer("dim") : 0;
  return c10::maybe_wrap_dim(dimension, call.result_rank());
}

void concatenate(Call& call) {
  auto& graph = call.graph();
  const auto names = call.optional_tensors("tensors");
  const auto tensors = call.tensors("tensors");
  std::vector<Value> parts;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& sizes = call.sizes_of_tensor(*names[i]);
    // LibTorch's cat ignores 1-dimensional tensors of size 0.
    const bool is_empty = sizes.size() == 1 && is_fixed(sizes[0]) && sizes[0].value == 0;
    if (is_empty && call.result_rank() > 1) continue;
    parts.push_back(graph.cast(tensors[i], call.result_type()));
  }
  call.set_output(graph.add("Concat", parts, {{"axis", joined_dimension(call)}}));
}

void stack(Call& call) {
  auto& graph = call.graph();
  const auto dimension = joined_dimension(call);
  std::vector<Value> parts;
  for (const auto& tensor : call.tensors("tensors")) {
    parts.push_back(unsqueeze(call, graph.cast(tensor, call.result_type()), {dimension}));
  }
  call.set_output(graph.add("Concat", parts, {{"axis", dimension}}));
}

/// Adds leading dimensions of size 1 to a value with `from` dimensions, so that the result has at
/// least `rank` dimensions.
Value with_rank(Call& call, Value value, int64_t from, int64_t rank) {
  return from >= rank ? value : unsqueeze(call, value, all_dimensions(rank - from));
}

Rule repeat(const char* times) {
  return [=](Call& call) {
    auto& graph = call.graph();
    const auto rank = call.rank("self");
    const auto self = with_rank(call, call.tensor("self"), rank, call.result_rank());
    if (call.result_rank() == 0) return call.set_output(self);
    auto repeats = call.integers_value(times);
    const auto missing = call.result_rank() - static_cast<int64_t>(call.length(times));
    if (missing > 0) {  // tile may have fewer numbers than dimensions
      const auto ones = graph.list(std::vector<int64_t>(static_cast<std::size_t>(missing), 1));
      repeats = graph.add("Concat", {ones, repeats}, {{"axis", 0}});
    }
    call.set_output(graph.add("Tile", {self, repeats}));
  };
}

void repeat_interleave(Call& call) {
  auto& graph = call.graph();
  auto self = call.tensor("self");
  auto dimension = int64_t{0};
  auto sizes = call.sizes("self");
  if (call.has("dim")) {
    dimension = call.dimension("dim");
  } else {
    self = graph.add("Reshape", {self, graph.list({-1})});
    sizes.resize(1);
  }
  // Expand broadcasts `times` (repeats, 1, ..., 1) with the sizes.
  const std::vector<int64_t> ones(sizes.size() - static_cast<std::size_t>(dimension) - 1, 1);
  auto times = call.integers_value("repeats");
  if (!ones.empty()) times = graph.add("Concat", {times, graph.list(ones)}, {{"axis", 0}});
  const auto repeated = graph.add("Expand", {unsqueeze(call, self, {dimension + 1}), times});
  // For each dimension of the result, `reshape` can copy the size from the dimension of `repeated`
  // with the same index. Unsqueeze has moved the dimensions after `dimension` by one, so only the
  // sizes before `dimension` may be copied.
  sizes.resize(static_cast<std::size_t>(dimension));
  call.set_output(call.reshape(repeated, sizes, call.result_sizes()));
}

void pixel_shuffle(Call& call) {
  if (call.rank("self") != 4) {
    call.fail("expected an input with 4 dimensions, found " + std::to_string(call.rank("self")));
  }
  call.set_output(
      call.graph().add("DepthToSpace", {call.tensor("self")},
                       {{"blocksize", call.integer("upscale_factor")}, {"mode", "CRD"}}));
}

/// Translates pixel_unshuffle: (..., C, H*r, W*r) -> (..., C*r*r, H, W).
void pixel_unshuffle(Call& call) {
  auto& graph = call.graph();
  const auto factor = graph.list({call.integer("downscale_factor")});
  const auto& sizes = call.sizes("self");
  const auto rank = call.rank("self");
  const auto leading = call.shape({sizes.begin(), sizes.end() - 3});
  const auto size = [&](int64_t i) { return call.size(sizes.at(static_cast<std::size_t>(i))); };
  const auto channels = size(rank - 3);
  const auto height = graph.add("Div", {size(rank - 2), factor});
  const auto width = graph.add("Div", {size(rank - 1), factor});
  const auto reshaped = [&](Value value, const std::vector<Value>& shape) {
    return graph.add("Reshape", {value, graph.add("Concat", shape, {{"axis", 0}})},
                     {{"allowzero", 1}});
  };
  auto value = reshaped(call.tensor("self"), {leading, channels, height, factor, width, factor});
  auto order = all_dimensions(rank + 2);  // (..., C, H, r, W, r) -> (..., C, r, r, H, W)
  const auto first = order.end() - 4;
  std::swap(first[0], first[1]);
  std::swap(first[1], first[3]);
  std::swap(first[2], first[3]);
  value = transpose(call, value, order);
  const auto square = graph.add("Mul", {factor, factor});
  call.set_output(reshaped(value, {leading, graph.add("Mul", {channels, square}), height, width}));
}

}  // namespace

void add_shape_rules(Rules& rules) {
  for (const auto name : kReshapings) rules[std::string(name)] = reshape;
  for (const auto* name :
       {"contiguous.default", "clone.default", "detach.default", "alias.default", "to.dtype",
        "to.dtype_layout", "to.device", "to.other", "type_as.default", "_to_copy.default",
        "lift_fresh.default", "lift_fresh_copy.default", "lift.default", "positive.default",
        "resolve_conj.default", "resolve_neg.default", "detach_copy.default"}) {
    rules[name] = same_tensor;
  }
  rules["expand.default"] = rules["broadcast_to.default"] = expand;
  rules["expand_as.default"] = expand_as;
  rules["broadcast_tensors.default"] = broadcast_tensors;
  rules["squeeze.default"] = rules["squeeze.dim"] = rules["squeeze.dims"] = squeeze_rule;
  rules["unsqueeze.default"] = unsqueeze_rule;
  rules["transpose.int"] = swap_dimensions;
  rules["t.default"] = rules["mT.default"] = rules["mH.default"] = rules["matrix_H.default"] =
      swap_last;
  rules["numpy_T.default"] = reverse_dimensions;
  rules["permute.default"] = permute;
  rules["movedim.int"] = rules["movedim.intlist"] = move_dimensions;
  rules["cat.default"] = concatenate;
  rules["stack.default"] = stack;
  rules["repeat.default"] = repeat("repeats");
  rules["tile.default"] = repeat("dims");
  rules["repeat_interleave.self_int"] = repeat_interleave;
  rules["meshgrid.default"] = rules["meshgrid.indexing"] = meshgrid;
  rules["pixel_shuffle.default"] = pixel_shuffle;
  rules["pixel_unshuffle.default"] = pixel_unshuffle;
}

}  // namespace attend::onnx
