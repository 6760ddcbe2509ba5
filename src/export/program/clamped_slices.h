#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

namespace attend::program {

/// Clamps the start and the end of each slice and `slice_scatter`. If a start or end exceeds the
/// size of the sliced dimension at some dynamic sizes, replaces this number by a SymInt that is
/// clamped to the size. Example: `x.slice(1, 0, 512)` becomes `x.slice(1, 0, min(x.size(1), 512))`.
/// Without this replacement, PyTorch would compare 512 with the size hint of `x.size(1)` when
/// PyTorch decomposes or compiles the program, and would assume that the result of the comparison
/// is the same for all inputs.
ATTEND_API void clamp_slices(ExportedProgram& program);

/// Sets the size hints (`Size::value`). The candidates are: the example's sizes; all sizes doubled
/// up to 12 times, within the ranges; then the sizes of one dimension at a time doubled or halved,
/// beginning with the best candidate so far. Chooses the candidate with the fewest sizes that
/// PyTorch would specialize: dynamic sizes that are 0 or 1, and clamped slices that reach the first
/// or the last element of the sliced dimension. When PyTorch decomposes or compiles a program, it
/// may assume that a property of the hints is true for all sizes, for example that a size is always
/// 1, or that a slice is always contiguous.
ATTEND_API void set_hints(ExportedProgram& program);

}  // namespace attend::program
