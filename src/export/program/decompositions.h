#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

namespace attend::program {

/// Decomposes some operators on dynamic dimensions into operators with SymInts: `tensor_split`,
/// `diagonal`, `max_pool1d` and adaptive pooling. PyTorch's own decompositions of these operators
/// branch on sizes, and assume that all sizes take the branch of the size hints: AOTInductor and
/// `run_decompositions()` would return programs that are wrong at other sizes. Returns true if an
/// operator was decomposed. The new tensors have no metadata.
ATTEND_API bool decompose(ExportedProgram& program);

}  // namespace attend::program
