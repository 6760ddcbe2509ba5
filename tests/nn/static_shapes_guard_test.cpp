#include "attend/nn/static_shapes_guard.h"

#include "attend/nn/mixture_of_experts.h"
#include "support/close.h"

#include <memory>
#include <thread>

namespace attend {
namespace {

TEST(StaticShapesGuard, IsActiveWithinItsScope) {
  EXPECT_FALSE(StaticShapesGuard::is_enabled());
  {
    const StaticShapesGuard outer;
    EXPECT_TRUE(StaticShapesGuard::is_enabled());
    { const StaticShapesGuard inner; }
    EXPECT_TRUE(StaticShapesGuard::is_enabled());
  }
  EXPECT_FALSE(StaticShapesGuard::is_enabled());
}

TEST(StaticShapesGuard, GuardsMayEndInAnyOrderAndOnAnyThread) {
  auto outer = std::make_unique<StaticShapesGuard>();
  auto inner = std::make_unique<StaticShapesGuard>();
  outer.reset();
  EXPECT_TRUE(StaticShapesGuard::is_enabled());
  std::thread([&] { inner.reset(); }).join();
  EXPECT_FALSE(StaticShapesGuard::is_enabled());
}

TEST(StaticShapesGuard, DoesNotChangeTheOutputOfMixtureOfExperts) {
  MixtureOfExperts mixture(MixtureOfExpertsOptions(8, 4));
  for (const auto& shape : {std::vector<int64_t>{2, 5, 8}, {3, 8}, {0, 8}}) {
    const auto x = torch::randn(shape);
    const auto routed = mixture(x);
    const StaticShapesGuard static_shapes_guard;
    EXPECT_TRUE(close(mixture(x), routed, 1e-6));
  }
}

}  // namespace
}  // namespace attend
