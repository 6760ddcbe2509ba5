#include "attend/nn/static_shapes_guard.h"

namespace attend {
namespace {

thread_local bool enabled = false;

}  // namespace

StaticShapesGuard::StaticShapesGuard() : outer_(enabled) {
  enabled = true;
}

StaticShapesGuard::~StaticShapesGuard() {
  enabled = outer_;
}

bool StaticShapesGuard::is_enabled() {
  return enabled;
}

}  // namespace attend
