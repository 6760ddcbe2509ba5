#pragma once

#include "attend/api.h"
#include "attend/io/tensor_info.h"

#include <optional>
#include <string>
#include <vector>

namespace attend {

/// Tensors grouped by module: "decoder.norm.weight" is `weight` in `norm` in `decoder`. A module
/// with a single child is merged with this child into one node: "token.weight".
struct TensorTree {
  std::string name;                  ///< relative to its parent; empty at the root
  std::optional<TensorInfo> tensor;  ///< set if the node is a tensor
  std::vector<TensorTree> children;  ///< in tensor order; ascending if all names are numbers
  TensorTotals totals;               ///< over the node and all nodes below
};

/// Builds the tree from the dots in the tensors' names.
///
///     tensor_tree(tensors_of(*model)).children.at(0).name == "embedding"
ATTEND_API TensorTree tensor_tree(const std::vector<TensorInfo>& tensors);

/// Returns the number of nodes below the root, down to `depth` levels.
ATTEND_API int64_t count_nodes(const TensorTree& tree, int64_t depth);

/// Returns the largest depth in [1, 64] for which `count_nodes` is at most `nodes`, or 1 if depth 1
/// already has more nodes.
ATTEND_API int64_t depth_for(const TensorTree& tree, int64_t nodes);

}  // namespace attend
