#include "train/process_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace attend::train {
namespace {

std::mutex guards_mutex;
int64_t guards = 0;         // KeepFreedMemoryGuards of all threads
bool keeps_memory = false;  // whether the first of them changed malloc

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
