#pragma once

#include "attend/ops/attention.h"

#include <torch/types.h>

#include <array>
#include <vector>

namespace attend {

/// A range of queries and a range of keys. The range of keys contains all keys that the queries may
/// attend to.
struct QueryBlock {
  int64_t row;   ///< index of the first query
  int64_t rows;  ///< number of queries
  int64_t key;   ///< index of the first key
  int64_t keys;  ///< number of keys
};

/// The inputs of `attend_in_blocks` that may require a gradient.
struct BlockInputs {
  torch::Tensor query = {};        ///< (..., T, D)
  torch::Tensor key = {};          ///< (..., S, D)
  torch::Tensor value = {};        ///< (..., S, Dv)
  torch::Tensor sinks = {};        ///< (H) or (H, 1, 1); may be undefined
  torch::Tensor offset_bias = {};  ///< (H, S + T - 1); may be undefined
};

/// The members of `BlockInputs`.
inline constexpr std::array kBlockInputs{&BlockInputs::query, &BlockInputs::key,
                                         &BlockInputs::value, &BlockInputs::sinks,
                                         &BlockInputs::offset_bias};

/// Returns the blocks, each with up to `rows` queries. If `args` have no positions, a block
/// contains only keys that the sliding window and `causal` allow for some of its queries.
/// Otherwise, each block contains all keys.
std::vector<QueryBlock> query_blocks(const BlockInputs& inputs, const AttentionArgs& args,
                                     int64_t rows);

/// Returns `inputs` with only the queries, keys and values of `block`, as views. `sinks` and
/// `offset_bias` are unchanged. Undefined tensors stay undefined.
BlockInputs slice_inputs(const BlockInputs& inputs, const QueryBlock& block);

/// Returns `args` for the queries and keys of `block`. If `causal` or a sliding window is set and
/// `args` have no positions, the result has the positions that the tokens have in `inputs`.
AttentionArgs slice_args(const AttentionArgs& args, const QueryBlock& block,
                         const BlockInputs& inputs);

/// Returns the biases (H, rows, keys) of `block` as a view of `by_offset` (H, S + T - 1), with the
/// queries in reverse order. In this order, the biases of each row start one element later in
/// `by_offset` than the biases of the previous row, so a view suffices. `queries`: T.
torch::Tensor reversed_biases(const torch::Tensor& by_offset, const QueryBlock& block,
                              int64_t queries);

}  // namespace attend
