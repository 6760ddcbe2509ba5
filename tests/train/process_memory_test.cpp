#include "train/process_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>

namespace attend::train {
namespace {

/// Current resident set size, in bytes.
int64_t memory_now() {
  int64_t size = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;  // pages
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(PeakMemory, IsTheMaximumSoFar) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;
  constexpr int64_t kSlack = 8 << 20;  // the kernel updates the per-core counts lazily
  auto held = std::make_unique<char[]>(kBytes);
  std::fill_n(held.get(), kBytes, '\1');  // pages are allocated when written
  const auto most = memory_now();
  ASSERT_GE(most, static_cast<int64_t>(kBytes));
  EXPECT_GE(peak_memory(), most - kSlack);
  held.reset();
  EXPECT_LT(memory_now(), most);
  EXPECT_GE(peak_memory(), most - kSlack);
}

}  // namespace
}  // namespace attend::train
