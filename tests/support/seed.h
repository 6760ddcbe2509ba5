#pragma once

#include <cstdint>

namespace attend {

/// Seeds LibTorch's generators with a fixed number. The first base of a fixture, so that the
/// fixture's members are drawn after it.
///
///     struct FeedForwardTest : FixedSeed, testing::Test { ... };
struct FixedSeed {
  FixedSeed();
};

/// Seeds LibTorch's generators freshly, so that each run tests other cases, and prints the seed.
/// The environment variable ATTEND_TEST_SEED repeats a run.
uint64_t seed_afresh();

/// An integer drawn from low .. high by LibTorch's generator.
int64_t draw(int64_t low, int64_t high);

}  // namespace attend
