#pragma once

#include "export/program/program.h"

#include <string>
#include <vector>

namespace attend::pt2 {

/// A graph in a graph, which torch.export makes of what Python runs in a mode of its own, as under
/// torch.no_grad.
struct Region {
  std::vector<program::Argument> inputs;     ///< names inside
  std::vector<program::Argument> arguments;  ///< names outside, one for each input
  std::vector<program::Node> nodes;
  std::vector<program::Argument> outputs;  ///< names inside
  std::vector<program::Argument> results;  ///< names outside, one for each output
  bool has_gradients = true;               ///< whether any flow through it
};

/// Adds a region's nodes to those around it. Its names are its own: they get others. Throws
/// InputError if inputs and arguments, or outputs and results, are not of one kind and number.
void add_nodes(const Region& region, std::vector<program::Node>& nodes);

}  // namespace attend::pt2
