#pragma once

#include "attend/api.h"

namespace attend {

/// Returns false if the environment variable ATTEND_FAST is 0, or if this thread has a
/// `NoFastKernelsGuard`. All operators are then those of LibTorch, without kernels of this library.
ATTEND_API bool fast_kernels_are_enabled();

/// While a guard exists, the thread that created it uses no kernels of this library. Their results
/// differ from those of LibTorch's operators by rounding errors. The exporters create a guard,
/// because the exported programs use LibTorch's operators.
///
///     const NoFastKernelsGuard guard;
class ATTEND_API NoFastKernelsGuard {
 public:
  NoFastKernelsGuard();
  ~NoFastKernelsGuard();
  NoFastKernelsGuard(const NoFastKernelsGuard&) = delete;
  NoFastKernelsGuard& operator=(const NoFastKernelsGuard&) = delete;
};

/// While a guard exists, the thread that created it does not use the kernels of this library that
/// have no derivatives: those of products, norms and decoding steps. Gradient checkpointing creates
/// a guard, because it computes the same numbers with and without gradients.
///
///     const NoInferenceKernelsGuard guard;
class ATTEND_API NoInferenceKernelsGuard {
 public:
  NoInferenceKernelsGuard();
  ~NoInferenceKernelsGuard();
  NoInferenceKernelsGuard(const NoInferenceKernelsGuard&) = delete;
  NoInferenceKernelsGuard& operator=(const NoInferenceKernelsGuard&) = delete;
};

}  // namespace attend
