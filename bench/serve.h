#pragma once

#include "attend/ops/flop_counter.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>

namespace attend {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs `first`, which does `first_units` units of work or a smaller test of the results, and
/// prints the values that it returns and the number of floating point operations of a unit. Then,
/// for each number N in standard input, runs `unit` N times and prints the seconds that these runs
/// took.
inline void serve(const std::function<nlohmann::json()>& first, const std::function<void()>& unit,
                  int64_t first_units = 1) {
  nlohmann::json values;
  {
    const FlopCounter counter;
    values = first();
    values["flops"] = counter.flops() / first_units;
  }
  std::cout << values << std::endl;
  for (int64_t units = 0; std::cin >> units;) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < units; ++i) unit();
    std::cout << seconds_since(start) << std::endl;
  }
}

}  // namespace attend
