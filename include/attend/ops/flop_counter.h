#pragma once

#include "attend/api.h"

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>

namespace attend {

/// Counts the floating-point operations of the matrix products on this thread until the end of the
/// scope: of linear layers and, in attention, of scores and weighted sums over all T x S pairs,
/// masked or not. A multiply-add counts as 2. Elementwise operations (activations, norms, softmax)
/// are not counted, as usual. Counters may be nested; each counts everything in its scope.
///
/// For forward passes: the backward pass of fused attention is not counted.
///
///     FlopCounter counter;
///     model->forward(tokens);
///     counter.flops();
class ATTEND_API FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  /// Returns the number of floating-point operations so far.
  int64_t flops() const { return flops_; }

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);

  int64_t flops_ = 0;
  FlopCounter* outer_;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace attend
