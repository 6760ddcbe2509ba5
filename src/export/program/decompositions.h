#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

namespace attend::program {

/// Replaces some operators on dynamic dimensions by other operators, some of which have SymInts as
/// arguments. The replaced operators are `tensor_split` (also `hsplit`, `vsplit` and `dsplit`),
/// `unbind`, `diagonal`, `diagonal_scatter`, `diag`, `trace`, `take_along_dim`, `max_pool1d` and
/// adaptive pooling. PyTorch's own decompositions of these operators make sizes constant, or branch
/// on sizes and keep only the branch that is taken for the size hints. AOTInductor and
/// `run_decompositions()` would therefore return programs that are wrong at other sizes. Returns
/// true if an operator was replaced. Tensors that were not in the program before have empty
/// metadata.
ATTEND_API bool decompose(ExportedProgram& program);

}  // namespace attend::program
