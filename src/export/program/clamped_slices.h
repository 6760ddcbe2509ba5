#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

namespace attend::program {

/// Replaces the begin and the end of slices that exceed the size of the input at some sizes by
/// SymInts within the size: `x.slice(1, 0, 512)` becomes `x.slice(1, 0, min(x.size(1), 512))`.
/// Otherwise PyTorch would assume, when it decomposes or compiles the program, that all inputs are
/// on the same side of 512 as the size hints.
ATTEND_API void clamp_slices(ExportedProgram& program);

/// Sets the size hints (`Size::value`) to sizes at which no tensor has a size of 0 or 1 and no
/// slice is a whole dimension. Tries the example's sizes, and all sizes doubled several times,
/// within the ranges. When PyTorch decomposes or compiles a program, it may assume that what is
/// true for the hints is true for all sizes: that a size of 1 is constant, or that a slice is
/// contiguous.
ATTEND_API void set_hints(ExportedProgram& program);

}  // namespace attend::program
