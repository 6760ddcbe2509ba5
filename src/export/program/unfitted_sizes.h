#pragma once

namespace attend::program {

/// What becomes of a size that `SymbolicSizes` finds no expression for.
enum class UnfittedSizes {
  refused,    ///< an error: a .pt2 archive must say what it is
  left_open,  ///< its expression is no SymPy, but the same for those that are always the same
};

}  // namespace attend::program
