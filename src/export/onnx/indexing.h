#pragma once

#include "export/onnx/call.h"

namespace attend::onnx {

/// What index and index_put are called with, as GatherND and ScatterND want it: the dimensions that
/// are indexed come first.
struct Indices {
  std::vector<int64_t> order;  ///< of the dimensions, those that are indexed first
  std::size_t indexed = 0;     ///< how many there are
  bool in_place = true;        ///< whether they stand together, so that the result's stay there
  Value places;                ///< (..., indexed), int64
  int64_t rank = 0;            ///< of `places` without its last
};

/// Reads the lists of indices of a call; masks count as the places where they hold.
Indices read_indices(Call& call);

/// `index` (n), with ones around, so that it broadcasts along a dimension of a tensor of that rank.
Value along(Call& call, Value index, int64_t dimension, int64_t rank);

}  // namespace attend::onnx
