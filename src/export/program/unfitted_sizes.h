#pragma once

namespace attend::program {

/// What becomes of a size that `SymbolicSizes` finds no expression for.
enum class UnfittedSizes {
  refused,  ///< an error: a .pt2 archive must say what it is
  /// Its expression is no SymPy, but the same for those that are always the same. Strides, which
  /// take long to find, are then those of the example.
  left_open,
};

}  // namespace attend::program
