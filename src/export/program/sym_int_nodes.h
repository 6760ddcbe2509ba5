#pragma once

#include "pt2/program/exported_program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace attend::program {

/// Returns `base`, or if a tensor or SymInt already has this name, `base` with a number appended.
std::string unique_name(const ExportedProgram& program, const std::string& base);

/// Appends nodes to a list of nodes. The new nodes compute SymInts. Keeps references to the
/// arguments.
class SymIntNodes {
 public:
  SymIntNodes(ExportedProgram& program, std::vector<Node>& nodes)
      : program_(program), nodes_(nodes) {}

  /// Adds a node that reads the size of a dimension of a tensor. `size`: the size of this dimension
  /// in the metadata.
  SymbolName size_of(const TensorName& tensor, int64_t dimension, const Size& size);

  /// Adds a node that computes `target(a, b)`. `function`: name of the same function in SymPy
  /// expressions.
  SymbolName call(const char* target, const char* function, const SymbolName& a, const Argument& b);

 private:
  SymbolName add(const char* target, std::vector<NamedArgument> inputs, std::string expression);
  std::string text_of(const Argument& argument) const;

  ExportedProgram& program_;
  std::vector<Node>& nodes_;
};

}  // namespace attend::program
