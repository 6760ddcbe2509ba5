#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

namespace attend::program {

/// Replaces some operators on tensors with dynamic dimensions by other operators, with SymInts as
/// arguments: `tensor_split`, `unbind`, `diagonal` and functions that use it, `take_along_dim`,
/// `max_pool1d` and adaptive pooling. PyTorch's own decompositions of these operators branch on
/// sizes, and assume that all sizes take the branch of the size hints, or make sizes constant:
/// AOTInductor and `run_decompositions()` would return programs that are wrong at other sizes.
/// Returns true if an operator was replaced. The new tensors have no metadata.
ATTEND_API bool decompose(ExportedProgram& program);

}  // namespace attend::program
