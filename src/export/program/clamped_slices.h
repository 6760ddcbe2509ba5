#pragma once

#include "attend/api.h"
#include "program/exported_program.h"

namespace attend::program {

/// Replaces the start and the end of slices and `slice_scatter` along dynamic dimensions by SymInts
/// that are clamped to the size of the dimension. Does not replace 0 and kEnd. Changes a slice only
/// if one of these conditions is true at some sizes of the dimension: the start or the end is
/// outside of the dimension; the end is before the start.
/// Example: `x.slice(1, 0, 512)` becomes `x.slice(1, 0, min(x.size(1), 512))`.
/// Without this replacement, PyTorch would compare 512 with the size hint of `x.size(1)` when
/// PyTorch decomposes or compiles the program, and would assume that the result of the comparison
/// is the same for all inputs.
ATTEND_API void clamp_slices(ExportedProgram& program);

/// Sets the size hints (`Size::value`). First tries the example's sizes, and all sizes doubled up
/// to 12 times. Then starts from the best sizes so far, and doubles or halves the size of one
/// dynamic dimension at a time, up to 12 times. Keeps all sizes within the ranges. Chooses the
/// sizes at which PyTorch would specialize the fewest numbers. PyTorch specializes dynamic sizes
/// that are 0 or 1, and clamped starts and ends of slices that reach the first or the last element
/// of the sliced dimension. When PyTorch decomposes or compiles a program, it may assume that a
/// property of the hints is true for all sizes, for example that a size is always 1, or that a
/// slice is always contiguous.
ATTEND_API void set_hints(ExportedProgram& program);

}  // namespace attend::program
