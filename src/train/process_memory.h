#pragma once

#include "attend/api.h"

#include <cstdint>

namespace attend::train {

/// Returns the peak resident set size of this process in bytes; GPU memory is not included.
ATTEND_API int64_t peak_memory();

/// Until the end of the scope, memory that is freed stays in the process, for the next allocations.
/// By default, malloc of glibc returns large blocks to the kernel. A training step allocates blocks
/// of the same sizes as the step before, and the kernel would clear and map their pages each time.
/// From the first guard on, tensors on the CPU get their memory from an allocator that can reuse
/// such blocks, unless the program or the user (THP_MEM_ALLOC_ENABLE) has chosen another one.
/// The last guard that ends returns the memory to the kernel. Without effect on other C libraries,
/// and if the user has set limits of malloc in the environment (GLIBC_TUNABLES, MALLOC_...).
///
///     const KeepFreedMemoryGuard memory;
class ATTEND_API KeepFreedMemoryGuard {
 public:
  KeepFreedMemoryGuard();
  ~KeepFreedMemoryGuard();
  KeepFreedMemoryGuard(const KeepFreedMemoryGuard&) = delete;
  KeepFreedMemoryGuard& operator=(const KeepFreedMemoryGuard&) = delete;
};

}  // namespace attend::train
