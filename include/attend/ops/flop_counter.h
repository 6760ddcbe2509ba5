#pragma once

#include "attend/api.h"

#include <cstdint>
#include <memory>

namespace attend {

/// Counts the floating-point operations of matrix products on this thread until the end of the
/// scope: linear layers and, in attention, scores and weighted sums over all computed T x S pairs,
/// masked or not. A multiply-add counts as 2. Elementwise operations (activations, norms, softmax)
/// are not counted, as usual in FLOP counts. Counters may be nested; each counts everything in its
/// scope. Counters may be destroyed in any order and on any thread.
///
/// Count only forward passes: the backward pass of fused attention is not counted.
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
  int64_t flops() const;

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace attend
