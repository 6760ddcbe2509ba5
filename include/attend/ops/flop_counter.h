#pragma once

#include "attend/api.h"

#include <cstdint>
#include <memory>

namespace attend {

/// Counts the floating-point operations of matrix products on this thread until the end of the
/// scope. Matrix products are computed by linear layers and, in attention, for the scores and the
/// weighted sums of the values. In attention, all pairs of query and key that are computed are
/// counted, even if they are masked. A multiply-add counts as 2. Elementwise operations
/// (activations, norms, softmax) are not counted, as usual in FLOP counts. Counters may be nested;
/// each counts everything in its scope. Counters may be destroyed in any order and on any thread.
///
/// Run only forward passes in the scope: in a backward pass, fused attention would not be counted.
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
