#pragma once

#include <cstdint>

namespace attend {

/// Seeds LibTorch's generators with a fixed number. Must be the first base class of a fixture, so
/// that the fixture's members are drawn after seeding.
///
///     struct FeedForwardTest : FixedSeed, testing::Test { ... };
struct FixedSeed {
  FixedSeed();
};

/// Seeds LibTorch's generators with a random seed. Prints and returns the seed. To repeat a run,
/// set the environment variable ATTEND_TEST_SEED to the printed seed.
uint64_t seed_afresh();

/// Draws an integer from [low, high] with LibTorch's generator.
int64_t draw(int64_t low, int64_t high);

}  // namespace attend
