#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"

namespace attend::program {

/// Clamps the begin and the end of each slice. If a begin or end exceeds the size of the sliced
/// dimension at some dynamic sizes, replaces this number by a SymInt that is clamped to the size.
/// Example: `x.slice(1, 0, 512)` becomes `x.slice(1, 0, min(x.size(1), 512))`. Without this
/// replacement, PyTorch would compare 512 with the size hint of `x.size(1)` when PyTorch decomposes
/// or compiles the program, and would assume that the result of the comparison is the same for all
/// inputs.
ATTEND_API void clamp_slices(ExportedProgram& program);

/// Sets the size hints (`Size::value`). Tries the example's sizes, then repeatedly doubles all
/// sizes, then the sizes of one dimension at a time, within the ranges. Chooses the first sizes at
/// which no dynamic dimension has size 0 or 1, and no clamped slice reaches the begin or the end of
/// the sliced dimension. If there are no such sizes, chooses the sizes with the fewest such
/// dimensions and slices. The reason: when PyTorch decomposes or compiles a program, it may assume
/// that a property of the hints is true for all sizes, for example that a size is always 1, or that
/// a slice is always contiguous.
ATTEND_API void set_hints(ExportedProgram& program);

}  // namespace attend::program
