#include "attend/nn/static_shapes_guard.h"

namespace attend {
namespace {

thread_local bool alive = false;

}  // namespace

StaticShapesGuard::StaticShapesGuard() : outer_(alive) {
  alive = true;
}

StaticShapesGuard::~StaticShapesGuard() {
  alive = outer_;
}

bool StaticShapesGuard::wanted() {
  return alive;
}

}  // namespace attend
