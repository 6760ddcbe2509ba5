#include "train/process_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/util/Exception.h>
#include <c10/util/env.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

namespace attend::train {
namespace {

std::mutex guards_mutex;
int64_t guards = 0;         // KeepFreedMemoryGuards of all threads
bool keeps_memory = false;  // whether the first of them changed malloc

/// Allocates the memory of tensors with malloc. LibTorch's allocator calls posix_memalign, for
/// which glibc needs a free block with room for the alignment: a block that a tensor has left is
/// too small for the next tensor of the same size.
class MallocAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* aligned = size == 0 ? nullptr : allocate_aligned(size);
    return {aligned, aligned, &free_aligned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_aligned; }
  void copy_data(void* destination, const void* source, std::size_t size) const override {
    default_copy_data(destination, source, size);
  }

 private:
  /// The address of the block is stored in front of the aligned address.
  static void* allocate_aligned(std::size_t size) {
    constexpr std::size_t kOverhead = sizeof(void*) + c10::gAlignment - 1;
    void* block = size > PTRDIFF_MAX ? nullptr : std::malloc(size + kOverhead);
    if (block == nullptr) c10::profiledCPUMemoryReporter().OutOfMemory(size);
    // Programs find a failure of LibTorch's allocator by these words.
    TORCH_CHECK(block != nullptr,
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate ", size,
                " bytes");
    void* aligned = static_cast<char*>(block) + sizeof(void*);
    auto space = size + kOverhead - sizeof(void*);
    std::align(c10::gAlignment, size, aligned, space);
    static_cast<void**>(aligned)[-1] = block;
    c10::profiledCPUMemoryReporter().New(aligned, size);
    return aligned;
  }

  static void free_aligned(void* aligned) {
    if (aligned == nullptr) return;
    c10::profiledCPUMemoryReporter().Delete(aligned);
    std::free(static_cast<void**>(aligned)[-1]);
  }
};

/// Never deleted: tensors may outlive static objects.
MallocAllocator& malloc_allocator() {
  static auto* allocator = new MallocAllocator;
  return *allocator;
}

/// LibTorch's allocator then asks the kernel for huge pages.
bool user_wants_huge_pages() {
  return c10::utils::check_env("THP_MEM_ALLOC_ENABLE") == true;
}

/// Returns true if the user has set how malloc of glibc keeps memory.
bool user_sets_malloc() {
  const auto* tunables = std::getenv("GLIBC_TUNABLES");
  return (tunables != nullptr && std::strstr(tunables, "glibc.malloc.") != nullptr) ||
         std::getenv("MALLOC_MMAP_MAX_") != nullptr ||
         std::getenv("MALLOC_MMAP_THRESHOLD_") != nullptr ||
         std::getenv("MALLOC_TRIM_THRESHOLD_") != nullptr;
}

}  // namespace

int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;  // ru_maxrss is in KiB on Linux
}

KeepFreedMemoryGuard::KeepFreedMemoryGuard() {
  const std::scoped_lock lock(guards_mutex);
  if (guards++ > 0) return;
  keeps_memory = !user_sets_malloc();
  if (!keeps_memory) return;
#ifdef __GLIBC__
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);  // never
  if (c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator() && !user_wants_huge_pages())
    c10::SetCPUAllocator(&malloc_allocator());
#endif
}

KeepFreedMemoryGuard::~KeepFreedMemoryGuard() {
  const std::scoped_lock lock(guards_mutex);
  if (--guards > 0 || !keeps_memory) return;
#ifdef __GLIBC__
  // The previous values cannot be read. By default, glibc adapts the thresholds to the sizes of
  // freed blocks until a call of mallopt. These are the largest values that it would choose.
  constexpr int kMaxThreshold = 32 << 20;
  ::mallopt(M_MMAP_MAX, 65'536);  // the default
  ::mallopt(M_MMAP_THRESHOLD, kMaxThreshold);
  ::mallopt(M_TRIM_THRESHOLD, 2 * kMaxThreshold);
  ::malloc_trim(0);
#endif
}

}  // namespace attend::train
