#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

/// Indices of aten::index and aten::index_put, converted for the ONNX operators GatherND and
/// ScatterND. These ONNX operators always index the first dimensions.
struct Indices {
  std::vector<int64_t> order;  ///< dimensions of `self`, the indexed ones first
  std::size_t indexed = 0;     ///< number of indexed dimensions
  bool is_adjacent = true;     ///< true if the indexed dimensions of `self` are adjacent
  Value indices;               ///< (..., indexed), int64
  int64_t rank = 0;            ///< rank of `indices` without the last dimension
};

/// Reads the argument `indices` of a call. Masks (bool or uint8) are converted to the indices of
/// their elements that are not 0.
Indices read_indices(Call& call);

/// Reshapes `index` (n) to (1, ..., n, ..., 1) for broadcasting. The result has `rank` dimensions:
/// `dimension` has size n, and the others have size 1.
Value along(Call& call, Value index, int64_t dimension, int64_t rank);

}  // namespace attend::onnx
