#pragma once

#include "attend/api.h"
#include "attend/ops/attention.h"

#include <torch/types.h>

namespace attend {

// Attention over long sequences is computed in blocks. A block consists of some of the queries and
// all keys that these queries may attend to. Masks, biases and weights are in memory for one block
// at a time, so memory grows linearly in T. The backward pass recomputes each block.

/// Thresholds for attention in blocks, and the number of queries per block. Tests change these
/// numbers.
struct BlockLimits {
  /// Minimum number of queries if the call has no positions, and its sliding window is smaller than
  /// half the number of keys. Blocks make such a call faster.
  int64_t min_queries_with_window = 512;
  int64_t min_queries = 2048;  ///< minimum for all other calls, for which blocks reduce memory
  int64_t rows = 0;            ///< queries per block; 0 = depends on the call
};

/// Returns the `BlockLimits` of this thread. Tests may change them.
ATTEND_API BlockLimits& block_limits();

/// Returns whether `attend_in_blocks` supports the call and needs less time or memory than
/// attention without blocks. `has_offset_bias`: true if the call has a bias, such as ALiBi, that
/// depends only on the offset (key position - query position).
ATTEND_API bool computes_in_blocks(const torch::Tensor& query, const torch::Tensor& key,
                                   const torch::Tensor& value, const AttentionArgs& args,
                                   const ScoreOptions& options, bool has_offset_bias);

/// Returns all offsets (key position - query position) of `query` (..., T, D) and `key` (..., S, D)
/// in ascending order, shape (S + T - 1). The last query has the position of the last key.
ATTEND_API torch::Tensor all_offsets(const torch::Tensor& query, const torch::Tensor& key);

/// Returns the output (..., T, Dv) of attention, computed in blocks of queries. Supports the calls
/// that `computes_in_blocks` accepts, also with fewer queries than in `BlockLimits`.
/// `offset_bias` (H, S + T - 1): the bias of each head at each of `all_offsets`; undefined = none.
/// `self_attention`: as in `prepare_mask`.
ATTEND_API torch::Tensor attend_in_blocks(const torch::Tensor& query, const torch::Tensor& key,
                                          const torch::Tensor& value, const AttentionArgs& args,
                                          const ScoreOptions& options,
                                          const torch::Tensor& offset_bias, bool self_attention);

}  // namespace attend
