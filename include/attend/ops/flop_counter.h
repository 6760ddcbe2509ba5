#pragma once

#include "attend/api.h"

#include <ATen/record_function.h>

#include <cstdint>
#include <memory>

namespace attend {

/// While it is alive, counts the floating-point operations of the matrix products computed on this
/// thread, by whatever code: those of linear layers, and in attention the scores and the weighted
/// sums, for each query with each key, masked or not. A multiply-add counts as 2; all that goes
/// element by element (activations, norms, softmax) counts as nothing, as is usual. Counters nest:
/// each counts all that happens in its life.
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

  int64_t flops() const { return flops_; }

 private:
  static std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function);
  static void on_end(const at::RecordFunction& function, at::ObserverContext* context);

  int64_t flops_ = 0;
  FlopCounter* outer_;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace attend
