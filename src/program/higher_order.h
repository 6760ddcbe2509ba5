#pragma once

#include "program/exported_program.h"
#include "program/step.h"

#include <cstddef>
#include <vector>

namespace attend::program {

/// A higher-order operator: an operator with graphs as arguments, such as torch.cond.
struct HigherOrderOperator {
  RunBlocks run;
  std::vector<Argument> predicate;  ///< of torch.cond; empty for other operators
  std::vector<Argument> operands;   ///< inputs of the graphs, in order
  /// Number of outputs of each graph. 0 for a graph that returns the outputs of the node.
  std::vector<std::size_t> graph_outputs;
};

/// Returns the higher-order operator that a node calls. Throws InputError if the operator is not
/// supported, or if its settings are invalid.
HigherOrderOperator higher_order_operator(const Node& node);

}  // namespace attend::program
