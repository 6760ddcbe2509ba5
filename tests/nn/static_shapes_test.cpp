#include "attend/nn/static_shapes.h"

#include "attend/nn/mixture_of_experts.h"
#include "support/close.h"

namespace attend {
namespace {

TEST(StaticShapes, AreWantedWhileOneIsAlive) {
  EXPECT_FALSE(StaticShapes::wanted());
  {
    const StaticShapes outer;
    EXPECT_TRUE(StaticShapes::wanted());
    { const StaticShapes inner; }
    EXPECT_TRUE(StaticShapes::wanted());
  }
  EXPECT_FALSE(StaticShapes::wanted());
}

TEST(StaticShapes, LeaveWhatAMixtureOfExpertsGives) {
  MixtureOfExperts mixture(MixtureOfExpertsOptions(8, 4));
  for (const auto& shape : {std::vector<int64_t>{2, 5, 8}, {3, 8}, {0, 8}}) {
    const auto x = torch::randn(shape);
    const auto routed = mixture(x);
    const StaticShapes static_shapes;
    EXPECT_TRUE(close(mixture(x), routed, 1e-6));
  }
}

}  // namespace
}  // namespace attend
