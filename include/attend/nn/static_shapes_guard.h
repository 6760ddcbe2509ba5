#pragma once

#include "attend/api.h"

#include <memory>

namespace attend {

/// While a guard exists, the modules of this library create no tensors with data-dependent shapes
/// on the thread that created the guard. Some export formats do not support such shapes. To avoid
/// them, `MixtureOfExperts` runs all experts on all tokens and gives weight 0 to experts that are
/// not chosen. Guards may be destroyed in any order and on any thread.
///
///     const StaticShapesGuard static_shapes_guard;
class ATTEND_API StaticShapesGuard {
 public:
  StaticShapesGuard();
  ~StaticShapesGuard();
  StaticShapesGuard(const StaticShapesGuard&) = delete;
  StaticShapesGuard& operator=(const StaticShapesGuard&) = delete;

  /// Returns true if a guard that was created on this thread still exists.
  static bool is_enabled();

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace attend
