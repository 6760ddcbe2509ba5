#include "train/process_memory.h"

#include "support/small_runs.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

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

TEST(KeepFreedMemoryGuard, ReusesTheBlockOfATensorForOneOfTheSameSize) {
  const auto count_moved = [] {
    const KeepFreedMemoryGuard memory;
    int moved = 0;
    for (const int64_t size : {1'000, 70'000, 5'000'000, 80'000'000}) {
      auto first = torch::empty({size}, torch::kByte);
      const auto next = torch::empty({size}, torch::kByte);  // ends the block of `first`
      const auto* address = first.data_ptr();
      first.reset();
      if (torch::empty({size}, torch::kByte).data_ptr() == address) continue;
      std::cerr << "moved: " << size << " bytes\n";
      ++moved;
    }
    return moved;
  };
  // A process of its own: blocks that other tests have freed may fit, too.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(count_moved()), testing::ExitedWithCode(0), "");
}

TEST(KeepFreedMemoryGuard, AllocatesTensorsThatOutliveIt) {
  std::vector<torch::Tensor> tensors;
  {
    const KeepFreedMemoryGuard memory;
    EXPECT_NE(c10::GetCPUAllocator(), c10::GetDefaultCPUAllocator());
    for (const int64_t size : {0, 1, 63, 64, 65, 1'000'000})
      tensors.push_back(torch::full({size}, 7, torch::kByte));
    // After a failure, glibc serves a thread from another part of the memory.
    std::thread([] {
      EXPECT_THROW(torch::empty({int64_t{1} << 62}, torch::kByte), c10::Error);
    }).join();
  }
  for (auto& tensor : tensors) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % c10::gAlignment, 0U);
    const auto size = tensor.numel();
    tensor.resize_({size + 100});
    EXPECT_TRUE(tensor.slice(0, 0, size).eq(7).all().item<bool>());
  }
}

TEST(KeepFreedMemoryGuard, KeepsTheAllocatorOfTheProgram) {
  struct Own : c10::Allocator {
    c10::DataPtr allocate(std::size_t size) override {
      return c10::GetDefaultCPUAllocator()->allocate(size);
    }
    void copy_data(void* destination, const void* source, std::size_t size) const override {
      default_copy_data(destination, source, size);
    }
  };
  static Own own;
  auto* const before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&own);
  {
    const KeepFreedMemoryGuard memory;
    EXPECT_EQ(c10::GetCPUAllocator(), &own);
  }
  EXPECT_EQ(c10::GetCPUAllocator(), &own);
  c10::SetCPUAllocator(before);
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
