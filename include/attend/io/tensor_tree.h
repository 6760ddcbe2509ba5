#pragma once

#include "attend/api.h"
#include "attend/io/tensor_info.h"

#include <optional>
#include <string>
#include <vector>

namespace attend {

/// Tensors grouped by module: "decoder.norm.weight" is `weight` in `norm` in `decoder`. A module
/// with a single child is merged with this child into one node, such as "token.weight".
struct TensorTree {
  std::string name;                  ///< name relative to the parent node; empty for the root
  std::optional<TensorInfo> tensor;  ///< set if the node is a tensor
  /// Child nodes in the order of the tensors. Nodes whose names differ only in their numbers are in
  /// ascending order of the numbers.
  std::vector<TensorTree> children;
  TensorTotals totals;  ///< totals over the tensors of this node and of all nodes below
};

/// Builds the tree of `tensors`. The full name of a tensor consists of the names of the modules
/// that contain the tensor, and of the tensor's own name. Dots separate these names.
///
///     tensor_tree(tensors_of(*model)).children.at(0).name == "embedding"
ATTEND_API TensorTree tensor_tree(const std::vector<TensorInfo>& tensors);

/// Returns the number of nodes in the first `depth` levels below the root.
ATTEND_API int64_t count_nodes(const TensorTree& tree, int64_t depth);

/// Returns the largest depth in [1, 64] for which `count_nodes` is at most `nodes`, or 1 if depth 1
/// already has more nodes.
ATTEND_API int64_t depth_for(const TensorTree& tree, int64_t nodes);

}  // namespace attend
