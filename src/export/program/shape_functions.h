#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace attend::program {

/// Sizes by name of the tensor that has the size, and index of the dimension.
using ShapeFunctionResult = std::map<std::pair<std::string, std::size_t>, Size>;

/// Returns those sizes of a node's outputs that are floor divisions or clamped sizes by the
/// definition of the operator: slices, `unfold`, `tensor_split`, `chunk`, and convolutions and
/// pooling with a stride. `SymbolicShapes` finds such expressions from a limited number of sizes,
/// so that a wrong number in an expression may remain unnoticed; the definition has the right
/// numbers at all sizes. The sizes of the node's inputs must be in `program.tensors` and
/// `program.sym_ints`.
ATTEND_API ShapeFunctionResult shape_function(const Node& node, const ExportedProgram& program);

}  // namespace attend::program
