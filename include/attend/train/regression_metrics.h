#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <cstdint>

namespace attend::train {

/// Metrics of a regression.
struct RegressionMetrics {
  double mae = 0.0;  ///< mean absolute error
  double mse = 0.0;  ///< mean squared error
  double r2 = 0.0;   ///< 1 - squared error / squared deviation of the targets from their mean; NaN
                     ///< if all targets are equal
  double pearson = 0.0;  ///< correlation of predictions and targets, -1 to 1; NaN if one of them is
                         ///< constant
};

/// Number of sums that `regression_moments` returns.
inline constexpr int64_t kNumMoments = 8;

/// Returns sums over samples from which `regression_metrics` computes the metrics, (kNumMoments)
/// float64 on the CPU. The sums of several batches are added.
///
/// `predicted` (B), `targets` (B), any floating dtype.
ATTEND_API torch::Tensor regression_moments(const torch::Tensor& predicted,
                                            const torch::Tensor& targets);

/// Returns the metrics of at least one sample. `moments`: sum of results of `regression_moments`.
///
///     auto metrics = regression_metrics(regression_moments(logits, batch.targets));
ATTEND_API RegressionMetrics regression_metrics(const torch::Tensor& moments);

}  // namespace attend::train
