#include "support/seed.h"

#include <torch/types.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace attend {

FixedSeed::FixedSeed() {
  torch::manual_seed(1);
}

uint64_t seed_afresh() {
  const char* fixed_seed = std::getenv("ATTEND_TEST_SEED");
  const uint64_t seed = fixed_seed != nullptr ? std::stoull(fixed_seed) : std::random_device{}();
  std::cout << "repeat with ATTEND_TEST_SEED=" << seed << std::endl;
  torch::manual_seed(seed);
  return seed;
}

int64_t draw(int64_t low, int64_t high) {
  return torch::randint(low, high + 1, {}, torch::kLong).item<int64_t>();
}

}  // namespace attend
