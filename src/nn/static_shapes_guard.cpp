#include "attend/nn/static_shapes_guard.h"

#include "ops/thread_scope.h"

namespace attend {

struct StaticShapes {};

struct StaticShapesGuard::Scope : ThreadScope<StaticShapes> {};

StaticShapesGuard::StaticShapesGuard() : scope_(std::make_unique<Scope>()) {}

StaticShapesGuard::~StaticShapesGuard() = default;

bool StaticShapesGuard::is_enabled() {
  return Scope::innermost() != nullptr;
}

}  // namespace attend
