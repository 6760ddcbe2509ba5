#pragma once

#include "attend/api.h"
#include "export/operator_cost.h"
#include "export/resize.h"

#include <cstdint>
#include <map>
#include <string>

namespace attend {

/// Predicts the costs of forward passes from those of smaller inputs. Used to omit sizes that would
/// need too much memory or time.
class ATTEND_API CostModel {
 public:
  /// `base`: the sizes to which all other sizes are compared, and the cost at these sizes.
  CostModel(const SizesByName& base, const OperatorCost& cost);

  /// Adds the cost at the base sizes, except that `dimension` has `size`.
  void add(const std::string& dimension, int64_t size, const OperatorCost& cost);

  /// Returns an estimate: the product of how much each dimension alone increases the cost. Beyond
  /// the largest size of a dimension so far, costs grow with the power of the size that the last
  /// two sizes have shown; if there is only one, with the square, as the scores of attention do.
  OperatorCost predict(const SizesByName& sizes) const;

  /// Returns the largest size of `dimension` so far.
  int64_t largest(const std::string& dimension) const {
    return costs_.at(dimension).rbegin()->first;
  }

 private:
  double growth(const std::string& dimension, int64_t size, int64_t OperatorCost::*member) const;

  OperatorCost base_cost_;
  std::map<std::string, std::map<int64_t, OperatorCost>> costs_;  // by dimension and size
};

}  // namespace attend
