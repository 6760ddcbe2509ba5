#pragma once

#include "attend/api.h"

namespace attend {

/// While it is alive, no module on this thread makes a tensor whose shape depends on the values of
/// another one, for formats that cannot describe such a tensor. `MixtureOfExperts` then sends all
/// tokens through all experts, and weighs those not chosen by 0.
///
///     const StaticShapesGuard static_shapes_guard;
class ATTEND_API StaticShapesGuard {
 public:
  StaticShapesGuard();
  ~StaticShapesGuard();
  StaticShapesGuard(const StaticShapesGuard&) = delete;
  StaticShapesGuard& operator=(const StaticShapesGuard&) = delete;

  /// Whether one is alive on this thread.
  static bool wanted();

 private:
  bool outer_;
};

}  // namespace attend
