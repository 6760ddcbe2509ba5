#pragma once

#include "attend/api.h"
#include "export/resize.h"
#include "export/thread_callback.h"

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace attend {

/// Cost of a forward pass.
struct OperatorCost {
  /// `OperatorCostGuard` sets `bytes` to the memory of the largest tensor that an operator
  /// returned. Code that creates a guard then compares `bytes` with the total memory of the inputs
  /// (in `verify`, of the inputs and outputs), and sets `bytes` to the larger number.
  int64_t bytes = 0;
  /// Total number of elements in all tensors that operators returned. Operators that
  /// other operators call are included: the results of `aten::linear` and of the `aten::addmm` that
  /// it calls are both counted.
  int64_t elements = 0;
};

/// RAII guard: until the end of the scope, records the cost of the operators that this thread
/// calls. Outputs that share the memory of an input, such as a transposed weight, cost nothing.
/// Guards of one thread must not overlap.
class ATTEND_API OperatorCostGuard {
 public:
  explicit OperatorCostGuard(OperatorCost& cost);
  ~OperatorCostGuard();

 private:
  ThreadCallback callback_;
};

/// Returns the total memory of all tensors, in bytes.
ATTEND_API int64_t bytes_of(const std::vector<torch::Tensor>& tensors);

/// Predicts the cost of a forward pass from measured costs at other sizes. The export uses the
/// prediction to skip runs at sizes that would need too much memory or time.
class ATTEND_API CostModel {
 public:
  /// `base`: the base sizes of all dynamic dimensions. `cost`: the cost at these sizes. `add` adds
  /// the costs at other sizes.
  CostModel(const SizesByName& base, const OperatorCost& cost);

  /// Adds the cost at other sizes. Ignores sizes that differ from the base sizes in several
  /// dimensions.
  void add(const SizesByName& sizes, const OperatorCost& cost);

  /// Returns an estimate: the cost at the base sizes, multiplied by one factor per dimension. The
  /// factor of a dimension is the cost if only this dimension changes, divided by the cost at the
  /// base sizes. The known sizes of a dimension are the base size and the added sizes. Above the
  /// largest known size, the cost is assumed to grow with a power of the size. The exponent is
  /// estimated from the costs at the two largest known sizes. A margin of 0.25 is added, and the
  /// sum is raised to 1 if it is less. If only the base size is known, the exponent is 2, since the
  /// cost of attention scores grows with the square of the sequence length.
  /// Between two known sizes, the cost is interpolated by a power of the size. Below the smallest
  /// known size, the cost at the smallest known size is used.
  OperatorCost predict(const SizesByName& sizes) const;

  /// Returns the largest size of `dimension` with a known cost.
  int64_t largest(const std::string& dimension) const {
    return costs_.at(dimension).rbegin()->first;
  }

 private:
  double growth(const std::string& dimension, int64_t size, int64_t OperatorCost::*member) const;

  SizesByName base_;
  OperatorCost base_cost_;
  std::map<std::string, std::map<int64_t, OperatorCost>> costs_;  // by dimension and size
};

/// Runs a function at several sizes of the dynamic dimensions, unless it is predicted to need too
/// much memory or time.
class ATTEND_API RunLoop {
 public:
  using Run = std::function<OperatorCost(const SizesByName& sizes)>;
  struct Limits {
    int64_t bytes = 0;  ///< memory of a run, see `OperatorCost::bytes`
    /// Sum over all runs of `run_if_affordable`, or twice the cost of the run at the base sizes,
    /// whichever is larger.
    int64_t elements = 0;
  };

  /// Runs at the base sizes.
  RunLoop(const SizesByName& base, const Limits& limits, Run run);

  void run(const SizesByName& sizes) { costs_.add(sizes, run_(sizes)); }
  /// Returns false, without a run, if the limits would be exceeded.
  bool run_if_affordable(const SizesByName& sizes);
  /// As above with other limits: `max_elements` for this run alone.
  bool run_if_affordable(const SizesByName& sizes, int64_t max_elements);
  const CostModel& costs() const { return costs_; }

 private:
  bool is_affordable(const SizesByName& sizes, int64_t max_elements) const;

  Limits limits_;  // `elements` decreases with each run
  Run run_;
  CostModel costs_;
};

}  // namespace attend
