#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace attend::train {

/// Returns the confusion matrix of a classifier, (C, C) int64 on the CPU, as in scikit-learn:
/// element (i, j) is the number of samples of class i that were predicted as class j.
///
/// `predicted` (B), `targets` (B), int64 in [0, num_classes).
///
///     auto matrix = confusion_matrix(logits.argmax(-1), batch.targets, logits.size(-1));
ATTEND_API torch::Tensor confusion_matrix(const torch::Tensor& predicted,
                                          const torch::Tensor& targets, int64_t num_classes);

/// Metrics of one class. A quotient with the denominator 0 is 0, as in scikit-learn.
struct ClassMetrics {
  double precision = 0.0;  ///< fraction of the predictions of this class that are correct, 0 to 1
  double recall = 0.0;     ///< fraction of the samples of this class that are found, 0 to 1
  double f1 = 0.0;         ///< harmonic mean of precision and recall, 0 to 1
  int64_t support = 0;     ///< number of samples of this class
};

/// Returns the metrics of each class. `matrix` is a result of `confusion_matrix`.
ATTEND_API std::vector<ClassMetrics> class_metrics(const torch::Tensor& matrix);

}  // namespace attend::train
