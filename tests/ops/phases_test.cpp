#include "ops/in_parallel.h"
#include "support/seed.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

namespace attend {
namespace {

/// Fills `numbers` in three phases, of which each reads what other threads wrote in the previous
/// one. Returns whether all sums are right.
bool phases_are_in_order(int64_t count) {
  std::vector<int64_t> numbers(count, 0), sums(count, 0), total(1, 0);
  const auto write = [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) numbers[i] += i + 1;
  };
  const auto sum = [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i)
      sums[i] += std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
  };
  const auto add = [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i)
      total[i] += std::accumulate(sums.begin(), sums.end(), int64_t{0});
  };
  in_phases({{count, 1, write}, {count, 2, sum}, {1, 1, add}});
  return total[0] == count * (count * (count + 1) / 2);
}

TEST(InPhases, EachPhaseReadsTheResultsOfThePreviousOne) {
  seed_afresh();
  const auto threads = at::get_num_threads();
  for (int i = 0; i < 200; ++i) {
    at::set_num_threads(static_cast<int>(draw(1, 5)));
    const auto count = draw(1, 40);
    EXPECT_TRUE(phases_are_in_order(count)) << count << ", threads " << at::get_num_threads();
  }
  at::set_num_threads(threads);
}

TEST(InPhases, RunsOnSeveralThreadsAtTheSameTime) {
  std::atomic<int> right = 0;
  const auto run = [&] {
    for (int i = 0; i < 20; ++i) right += phases_are_in_order(30) ? 1 : 0;
  };
  std::thread first(run), second(run);
  first.join();
  second.join();
  EXPECT_EQ(right, 40);
}

/// Returns the number of parts of a call on a new thread that may use all cores. `calls`: of these,
/// the parts of the last one are counted.
int64_t parts_with_all_cores(int64_t cores, int calls) {
  std::atomic<int64_t> parts = 0;
  std::thread([&] {
    at::set_num_threads(static_cast<int>(cores));
    for (int i = 0; i < calls; ++i) {
      parts = 0;
      in_parallel(1'000, 1, [&](int64_t /*begin*/, int64_t /*end*/) { ++parts; });
    }
  }).join();
  return parts;
}

TEST(InParallel, SharesTheCoresWithOtherCallers) {
  const auto cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const auto shared = std::max<int64_t>(1, cores / 2);
  in_parallel(1, 1, [&](int64_t /*begin*/, int64_t /*end*/) {
    EXPECT_LE(parts_with_all_cores(cores, 1'000), shared);
  });
  EXPECT_LE(parts_with_all_cores(cores, 1), shared) << "the other caller is expected again soon";
  EXPECT_EQ(parts_with_all_cores(cores, 1'000), cores);
}

TEST(InPhases, RunsInAParallelRegion) {
  std::atomic<int> right = 0;
  at::parallel_for(0, 8, 1, [&](int64_t begin, int64_t end) {
    for (auto i = begin; i < end; ++i) right += phases_are_in_order(30) ? 1 : 0;
  });
  EXPECT_EQ(right, 8);
}

}  // namespace
}  // namespace attend
