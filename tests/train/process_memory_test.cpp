#include "train/process_memory.h"

#include "support/small_runs.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
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

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int64_t page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

constexpr std::size_t kLarge = std::size_t{64} << 20;  // more than glibc's largest threshold

/// Allocates a tensor, writes to each page, and frees it. Returns the page faults.
int64_t page_faults_of_allocation(std::size_t size = kLarge) {
  const auto before = page_faults();
  torch::ones({static_cast<int64_t>(size)}, torch::kByte);
  return page_faults() - before;
}

TEST(KeepFreedMemoryGuard, KeepsLargeBlocks) {
  const auto few = static_cast<int64_t>(kLarge) / ::sysconf(_SC_PAGESIZE) / 16;
  page_faults_of_allocation();
  EXPECT_GT(page_faults_of_allocation(), 0);
  {
    const KeepFreedMemoryGuard memory;
    page_faults_of_allocation(2 * kLarge);  // small blocks may then lie in the freed memory
    EXPECT_LT(page_faults_of_allocation(), few);
    { const KeepFreedMemoryGuard nested; }
    EXPECT_LT(page_faults_of_allocation(), few) << "the end of a nested guard frees memory";
  }
  EXPECT_GT(page_faults_of_allocation(), 0);
}

TEST(KeepFreedMemoryGuard, ExistsWhileATrainerRuns) {
  SmallRun run(small_recipe("copy", 4));
  int64_t faults = 0;
  run.trainer.run({.stop_requested = [&] {
    page_faults_of_allocation(2 * kLarge);
    faults = page_faults_of_allocation();
    return false;
  }});
  EXPECT_LT(faults, static_cast<int64_t>(kLarge) / ::sysconf(_SC_PAGESIZE) / 16);
}

TEST(KeepFreedMemoryGuard, ReturnsTheMemoryAtTheEnd) {
  const auto before = memory_now();
  {
    const KeepFreedMemoryGuard memory;
    page_faults_of_allocation();
    EXPECT_GT(memory_now() - before, static_cast<int64_t>(kLarge) / 2);
  }
  EXPECT_LT(memory_now() - before, static_cast<int64_t>(kLarge) / 2);
}
#endif

}  // namespace
}  // namespace attend::train
