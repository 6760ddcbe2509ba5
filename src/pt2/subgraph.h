#pragma once

#include "pt2/program/exported_program.h"

#include <string>
#include <vector>

namespace attend::pt2 {

/// A graph called by a higher-order operator, such as code under torch.no_grad.
struct Subgraph {
  std::vector<program::Argument> inputs;     ///< names inside
  std::vector<program::Argument> arguments;  ///< names outside, one for each input
  std::vector<program::Node> nodes;
  std::vector<program::Argument> outputs;  ///< names inside
  std::vector<program::Argument> results;  ///< names outside, one for each output
  bool grad_enabled = true;
};

/// Appends a subgraph's nodes to `nodes` with unique names. Throws InputError if inputs and
/// arguments, or outputs and results, differ in number or type.
void inline_subgraph(const Subgraph& subgraph, std::vector<program::Node>& nodes);

}  // namespace attend::pt2
