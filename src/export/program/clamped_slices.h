#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

namespace attend::program {

/// If the begin or end of a slice exceeds the size of the dimension at some dynamic sizes, replaces
/// this number by a SymInt that is clamped to the size. Example: `x.slice(1, 0, 512)` becomes
/// `x.slice(1, 0, min(x.size(1), 512))`. Otherwise, when PyTorch decomposes or compiles the
/// program, it compares 512 with the size hint and assumes the same result for all inputs.
ATTEND_API void clamp_slices(ExportedProgram& program);

/// Sets the size hints (`Size::value`) to sizes at which no tensor has a size of 0 or 1 and no
/// slice is a whole dimension or, if none are found, to the sizes with the fewest such tensors and
/// slices. Tries the example's sizes, then repeatedly doubles all sizes, within the ranges. When
/// PyTorch decomposes or compiles a program, it may assume that what is true for the hints is true
/// for all sizes: that a size of 1 is constant, or that a slice is contiguous.
ATTEND_API void set_hints(ExportedProgram& program);

}  // namespace attend::program
