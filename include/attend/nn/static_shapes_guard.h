#pragma once

#include "attend/api.h"

#include <memory>

namespace attend {

/// Until the end of the scope, the modules of this library create no tensors with data-dependent
/// shapes on this thread. Some export formats do not support such shapes. To avoid them,
/// `MixtureOfExperts` runs all experts on all tokens and gives weight 0 to experts that are not
/// chosen. Guards may be destroyed in any order and on any thread.
///
///     const StaticShapesGuard static_shapes_guard;
class ATTEND_API StaticShapesGuard {
 public:
  StaticShapesGuard();
  ~StaticShapesGuard();
  StaticShapesGuard(const StaticShapesGuard&) = delete;
  StaticShapesGuard& operator=(const StaticShapesGuard&) = delete;

  /// Returns whether a guard exists on this thread.
  static bool is_enabled();

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace attend
