#include "ops/query_blocks.h"

#include <algorithm>

namespace attend {
namespace {

/// Returns x[begin : begin + count] along `dim`, as a view. Returns `x` itself if it is undefined.
torch::Tensor slice_if_defined(const torch::Tensor& x, int64_t dim, int64_t begin, int64_t count) {
  return x.defined() ? x.narrow(dim, begin, count) : x;
}

/// Returns `mask` (..., T or 1, S or 1) for the queries and keys of `block`.
torch::Tensor slice_mask(torch::Tensor mask, const QueryBlock& block) {
  if (!mask.defined()) return mask;
  if (mask.dim() >= 2 && mask.size(-2) != 1) mask = mask.narrow(-2, block.row, block.rows);
  if (mask.dim() >= 1 && mask.size(-1) != 1) mask = mask.narrow(-1, block.key, block.keys);
  return mask;
}

}  // namespace

std::vector<QueryBlock> query_blocks(const BlockInputs& inputs, const AttentionArgs& args,
                                     int64_t rows) {
  const int64_t queries = inputs.query.size(-2);
  const int64_t keys = inputs.key.size(-2);
  const int64_t offset = keys - queries;  // position of query 0
  const bool aligned = !args.positions.defined();
  std::vector<QueryBlock> blocks;
  for (int64_t row = 0; row < queries; row += rows) {
    const int64_t row_end = std::min(row + rows, queries);
    int64_t begin = 0;
    int64_t end = keys;
    if (aligned && args.sliding_window > 0) {
      const int64_t window = std::min(args.sliding_window, keys + queries);
      begin = std::clamp<int64_t>(row + offset - window + 1, 0, keys);
      end = std::clamp<int64_t>(row_end + offset + window - 1, begin, keys);
    }
    if (aligned && args.causal) end = std::clamp<int64_t>(row_end + offset, begin, end);
    blocks.push_back({row, row_end - row, begin, end - begin});
  }
  return blocks;
}

BlockInputs slice_inputs(const BlockInputs& inputs, const QueryBlock& block) {
  return {.query = slice_if_defined(inputs.query, -2, block.row, block.rows),
          .key = slice_if_defined(inputs.key, -2, block.key, block.keys),
          .value = slice_if_defined(inputs.value, -2, block.key, block.keys),
          .sinks = inputs.sinks,
          .offset_bias = inputs.offset_bias};
}

AttentionArgs slice_args(const AttentionArgs& args, const QueryBlock& block,
                         const BlockInputs& inputs) {
  auto result = args;
  result.mask = slice_mask(args.mask, block);
  result.key_mask = slice_if_defined(args.key_mask, -1, block.key, block.keys);
  const auto slice_both = [&](torch::Tensor& of_queries, torch::Tensor& of_keys) {
    const auto keys = of_keys.defined() ? of_keys : of_queries;
    of_queries = slice_if_defined(of_queries, -1, block.row, block.rows);
    of_keys = slice_if_defined(keys, -1, block.key, block.keys);
  };
  slice_both(result.segments, result.key_segments);
  slice_both(result.positions, result.key_positions);
  if (!args.positions.defined() && (args.causal || args.sliding_window > 0)) {
    const auto integers = inputs.query.options().dtype(torch::kLong);
    const int64_t first = block.row + inputs.key.size(-2) - inputs.query.size(-2);
    result.positions = torch::arange(first, first + block.rows, integers);
    result.key_positions = torch::arange(block.key, block.key + block.keys, integers);
  }
  return result;
}

torch::Tensor reversed_biases(const torch::Tensor& by_offset, const QueryBlock& block,
                              int64_t queries) {
  const int64_t begin = block.key - (block.row + block.rows) + queries;
  return by_offset.narrow(-1, begin, block.rows + block.keys - 1).unfold(-1, block.keys, 1);
}

}  // namespace attend
