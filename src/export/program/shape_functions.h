#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace attend::program {

/// Sizes of tensors. The key is the name of the tensor and the index of the dimension.
using ShapeFunctionResult = std::map<std::pair<std::string, std::size_t>, Size>;

/// Computes sizes of a node's outputs from the definition of the node's operator. Supports slice,
/// `unfold`, `tensor_split`, `chunk`, convolution and pooling, and returns {} for other operators.
/// Returns only sizes whose expressions contain floor_div, min or max. `SymbolicShapes` is not
/// reliable for such sizes: it derives an expression from the sizes in some runs, and a constant in
/// the expression may be wrong for sizes that do not occur in these runs. Sizes with other
/// expressions are left to `SymbolicShapes`. The sizes of the inputs must be in `program.tensors`
/// and `program.sym_ints`.
ATTEND_API ShapeFunctionResult shape_function(const Node& node, const ExportedProgram& program);

}  // namespace attend::program
