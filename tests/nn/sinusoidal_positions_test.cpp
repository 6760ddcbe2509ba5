#include "attend/nn/sinusoidal_positions.h"

#include "attend/ops/positions.h"
#include "support/close.h"
#include "support/modules.h"
#include "support/throws.h"
#include "support/trace.h"

namespace attend {
namespace {

TEST(SinusoidalPositions, EqualsTheFunction) {
  SinusoidalPositions position(6);
  const auto steps = torch::arange(5);
  EXPECT_TRUE(close(position(steps), sinusoidal_positions(steps, 6), 0.0));
}

TEST(SinusoidalPositions, HasNoStateAndCanBeCloned) {
  SinusoidalPositions position(6);
  EXPECT_THAT(state_names(*position), testing::IsEmpty());
  const auto copy = std::dynamic_pointer_cast<SinusoidalPositionsImpl>(position->clone());
  const auto steps = torch::arange(5);
  EXPECT_TRUE(close(copy->forward(steps), position(steps), 0.0));
}

TEST(SinusoidalPositions, TraceGeneralizesToOtherSizes) {
  SinusoidalPositions position(6);
  const auto run = [&](const Tensors& x) { return position(positions_like(x[0], -1)); };
  const auto traced = trace(run, {torch::zeros({2, 3})});
  const auto other = torch::zeros({1, 7});
  EXPECT_TRUE(close(traced({other}), run({other}), 0.0));
}

TEST(SinusoidalPositions, PrettyPrintShowsEmbedDim) {
  EXPECT_EQ(printed(*SinusoidalPositions(6)), "attend::SinusoidalPositions(embed_dim=6)");
}

TEST(SinusoidalPositions, NonPositiveEmbedDimThrows) {
  EXPECT_THAT([] { SinusoidalPositions(0); },
              throws<c10::ValueError>("embed_dim (0) must be positive"));
}

}  // namespace
}  // namespace attend
