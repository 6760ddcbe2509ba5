#pragma once

#include "attend/api.h"

#include <memory>

namespace attend {

/// Until the end of the scope, modules on this thread make no tensors with data-dependent shapes,
/// for export formats without them: `MixtureOfExperts` runs all experts on all tokens, with weight
/// 0 for those not chosen. Guards may be destroyed in any order and on any thread.
///
///     const StaticShapesGuard static_shapes_guard;
class ATTEND_API StaticShapesGuard {
 public:
  StaticShapesGuard();
  ~StaticShapesGuard();
  StaticShapesGuard(const StaticShapesGuard&) = delete;
  StaticShapesGuard& operator=(const StaticShapesGuard&) = delete;

  /// Returns whether there is a guard on this thread.
  static bool is_enabled();

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace attend
