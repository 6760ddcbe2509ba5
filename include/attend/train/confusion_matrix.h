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

/// Returns the confusion matrices of the labels of a multi-label classifier, (C, 2, 2) int64 on the
/// CPU, as scikit-learn's `multilabel_confusion_matrix`: element (c, i, j) is the number of samples
/// for which label c is i (0 or 1) and is predicted as j.
///
/// `predicted` (B, C), `targets` (B, C), bool.
ATTEND_API torch::Tensor multi_label_confusion_matrix(const torch::Tensor& predicted,
                                                      const torch::Tensor& targets);

/// Metrics of one class. A quotient with the denominator 0 is 0, as in scikit-learn.
struct ClassMetrics {
  double precision = 0.0;  ///< fraction of the predictions of this class that are correct, 0 to 1
  double recall = 0.0;     ///< fraction of the samples of this class that are found, 0 to 1
  double f1 = 0.0;         ///< harmonic mean of precision and recall, 0 to 1
  int64_t support = 0;     ///< number of samples of this class
};

/// Returns the metrics of each class or label. `matrix` is a result of `confusion_matrix` or
/// `multi_label_confusion_matrix`.
ATTEND_API std::vector<ClassMetrics> class_metrics(const torch::Tensor& matrix);

/// Returns the mean of the F1, as scikit-learn's `f1_score(average="macro")`: of all classes that
/// have samples or predictions, or of all labels. `matrix`: as for `class_metrics`, with at least
/// one sample.
///
///     auto f1 = macro_f1(confusion_matrix(logits.argmax(-1), batch.targets, 3));
ATTEND_API double macro_f1(const torch::Tensor& matrix);

/// Returns the F1 over all labels of all samples, as scikit-learn's `f1_score(average="micro")`.
/// `matrix` is a result of `multi_label_confusion_matrix`.
ATTEND_API double micro_f1(const torch::Tensor& matrix);

}  // namespace attend::train
