#pragma once

#include "program/exported_program.h"

#include <string>
#include <vector>

namespace attend::pt2 {

/// A graph that a higher-order operator calls. For example, torch.export writes code under
/// torch.no_grad as a subgraph.
struct Subgraph {
  std::vector<program::Argument> inputs;     ///< names in the subgraph
  std::vector<program::Argument> arguments;  ///< names in the outer graph, one for each input
  std::vector<program::Node> nodes;
  std::vector<program::Argument> outputs;  ///< names in the subgraph
  std::vector<program::Argument> results;  ///< names in the outer graph, one for each output
  bool grad_enabled = true;                ///< false under torch.no_grad
};

/// Appends the nodes of a subgraph to `nodes`, with unique names. Throws InputError if inputs and
/// arguments, or outputs and results, differ in number or type.
void inline_subgraph(const Subgraph& subgraph, std::vector<program::Node>& nodes);

}  // namespace attend::pt2
