#pragma once

#include "program/exported_program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace attend::program {

/// Returns a name that no tensor or SymInt of the program has: `base` or, if the program already
/// contains this name, `base` with a number appended, such as "sym_int_1".
std::string unique_name(const ExportedProgram& program, const std::string& base);

/// Returns the size that a node on SymInts computes. The metadata of its arguments must be set. A
/// node that returns a SymFloat has no such size.
Size computed_size(const ExportedProgram& program, const Node& node);

/// Appends nodes to a list of nodes. The new nodes compute SymInts. The object keeps references to
/// the program and to the list.
class SymIntNodes {
 public:
  SymIntNodes(ExportedProgram& program, std::vector<Node>& nodes)
      : program_(program), nodes_(nodes) {}

  /// Adds a node that reads the size of `tensor` in dimension `dimension`, and returns the name of
  /// the new SymInt. `size`: this size.
  SymbolName size_of(const TensorName& tensor, int64_t dimension, const Size& size);

  /// Each of these functions adds a node that computes a SymInt from `a` and `b`, and returns the
  /// name of the new SymInt. `b` is a SymInt or an integer.
  SymbolName sum(const SymbolName& a, const Argument& b);
  SymbolName product(const SymbolName& a, const Argument& b);
  SymbolName quotient(const SymbolName& a, int64_t b);  // rounded down
  SymbolName min(const SymbolName& a, const Argument& b);
  SymbolName max(const SymbolName& a, const Argument& b);

 private:
  SymbolName add(const char* target, const SymbolName& a, const Argument& b);

  ExportedProgram& program_;
  std::vector<Node>& nodes_;
};

}  // namespace attend::program
