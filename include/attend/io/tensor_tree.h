#pragma once

#include "attend/io/tensor_info.h"

#include <optional>
#include <string>
#include <vector>

namespace attend {

/// Tensors by the modules that hold them: "decoder.norm.weight" is `weight` in `norm` in `decoder`.
/// A module with nothing but one child is one node with it: "token.weight".
struct TensorTree {
  std::string name;                  ///< within its parent; empty at the root
  std::optional<TensorInfo> tensor;  ///< if it is one itself
  std::vector<TensorTree> children;  ///< in the order of the tensors; numbered ones by number
  TensorTotals totals;               ///< of all tensors in it
};

/// Puts tensors into a tree.
///
///     tensor_tree(tensors_of(*model)).children.at(0).name == "embedding"
TensorTree tensor_tree(const std::vector<TensorInfo>& tensors);

/// How many nodes a tree has below its root, down to `depth` levels.
int64_t count_nodes(const TensorTree& tree, int64_t depth);

/// The greatest depth at which a tree has at most `nodes` nodes, at least 1.
int64_t depth_for(const TensorTree& tree, int64_t nodes);

}  // namespace attend
