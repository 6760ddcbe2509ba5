#include "export/onnx/reductions.h"
#include "export/onnx/rules.h"
#include "export/onnx/shapes.h"

#include <c10/core/WrapDimMinimal.h>

#include <algorithm>
#include <cstdlib>

namespace attend::onnx {
namespace {

/// Returns the dimensions of a value with `rank` dimensions in an order in which `one` and `other`
/// are the last two.
std::vector<int64_t> order_with_last(int64_t rank, int64_t one, int64_t other) {
  auto order = all_dimensions(rank);
  std::erase_if(order, [=](int64_t each) { return each == one || each == other; });
  order.push_back(one);
  order.push_back(other);
  return order;
}

/// Returns the elements (i, i + offset) of the matrices in the dimensions `dim1` and `dim2` of
/// `self`, along a new last dimension.
Value diagonal_of(Call& call, int64_t offset, int64_t dim1, int64_t dim2) {
  auto& graph = call.graph();
  const auto& sizes = call.sizes("self");
  const auto order = order_with_last(call.rank("self"), dim1, dim2);
  const auto self = transpose(call, call.tensor("self"), order);  // (..., rows, columns)
  const auto size_of = [&](int64_t dimension) {
    return call.size(sizes.at(static_cast<std::size_t>(dimension)));
  };
  const auto rows = size_of(dim1);
  const auto columns = size_of(dim2);
  const auto list = [&](int64_t number) { return graph.list({number}); };
  // The diagonal begins at the row or column |offset|.
  const auto row = std::max(-offset, int64_t{0});
  const auto column = std::max(offset, int64_t{0});
  auto length = graph.add(
      "Min", {graph.add("Sub", {rows, list(row)}), graph.add("Sub", {columns, list(column)})});
  length = squeeze(call, graph.add("Max", {length, list(0)}), {0});
  // In the flattened matrices, the next element of a diagonal is columns + 1 elements away.
  const auto steps = graph.range(length);
  const auto start = graph.add("Add", {graph.add("Mul", {columns, list(row)}), list(column)});
  const auto indices =
      graph.add("Add", {graph.add("Mul", {steps, graph.add("Add", {columns, list(1)})}), start});
  std::vector<Value> flat_shape;
  for (std::size_t i = 0; i + 2 < order.size(); ++i) flat_shape.push_back(size_of(order[i]));
  flat_shape.push_back(graph.add("Mul", {rows, columns}));
  const auto flat = graph.add("Reshape", {self, graph.add("Concat", flat_shape, {{"axis", 0}})},
                              {{"allowzero", 1}});
  return graph.add("Gather", {flat, indices},
                   {{"axis", static_cast<int64_t>(flat_shape.size()) - 1}});
}

/// Returns square matrices whose elements (i, i + offset) are the elements of the last dimension of
/// `self`; all other elements are 0. The matrices are the last two dimensions of the result.
Value with_diagonal(Call& call, int64_t offset) {
  auto& graph = call.graph();
  const auto rank = call.rank("self");
  const auto rows = unsqueeze(call, call.tensor("self"), {rank});  // (..., N, 1)
  std::vector<int64_t> padding(2 * static_cast<std::size_t>(rank + 1), 0);
  padding.at(static_cast<std::size_t>(rank) - 1) = std::max(-offset, int64_t{0});
  padding.at(static_cast<std::size_t>(2 * rank)) = std::max(offset, int64_t{0});
  const auto padded = offset == 0 ? rows : graph.add("Pad", {rows, graph.list(padding)});
  auto size = call.size(call.sizes("self").back());
  size = graph.add("Add", {size, graph.list({std::abs(offset)})});
  const auto positions = graph.range(squeeze(call, size, {0}));
  const auto distance = graph.add("Sub", {positions, unsqueeze(call, positions, {1})});
  const auto is_diagonal = graph.compare("Equal", distance, graph.number(Type::int64, offset));
  return graph.where(is_diagonal, padded, graph.number(padded.type, 0));
}

void diagonal(Call& call) {
  call.set_output(
      diagonal_of(call, call.integer("offset"), call.dimension("dim1"), call.dimension("dim2")));
}

void diag_embed(Call& call) {
  const auto rank = call.result_rank();
  const auto dim1 = c10::maybe_wrap_dim(call.integer("dim1"), rank);
  const auto dim2 = c10::maybe_wrap_dim(call.integer("dim2"), rank);
  const auto matrices = with_diagonal(call, call.integer("offset"));
  const auto order = order_with_last(rank, dim1, dim2);
  std::vector<int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    back.at(static_cast<std::size_t>(order[i])) = static_cast<int64_t>(i);
  }
  call.set_output(transpose(call, matrices, back));
}

/// Translates diag: the diagonal of a matrix, or a matrix with the diagonal `self`.
void diag(Call& call) {
  const auto offset = call.integer("diagonal");
  call.set_output(call.rank("self") == 1 ? with_diagonal(call, offset)
                                         : diagonal_of(call, offset, 0, 1));
}

void trace(Call& call) {
  const auto diagonal = call.graph().cast(diagonal_of(call, 0, 0, 1), call.result_type());
  call.set_output(reduce(call, "ReduceSum", diagonal, {0}, false));
}

}  // namespace

void add_diagonal_rules(Rules& rules) {
  rules["diagonal.default"] = diagonal;
  rules["diag_embed.default"] = diag_embed;
  rules["diag.default"] = diag;
  rules["trace.default"] = trace;
}

}  // namespace attend::onnx
