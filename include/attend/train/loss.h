#pragma once

#include "attend/api.h"
#include "attend/train/batch.h"
#include "attend/train/objective.h"

namespace attend::train {

/// Returns the cross-entropy (0-dim), summed over all targets that are not `kIgnoreIndex`.
///
/// `logits` (..., V), `targets` (...) int64. Logits in half precision are converted to float32.
/// `label_smoothing` as in torch's cross_entropy (Szegedy et al. 2016).
ATTEND_API torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                                     double label_smoothing = 0.0);

/// Returns the number of targets that are not `kIgnoreIndex`.
ATTEND_API int64_t num_targets(const Batch& batch);

/// Returns the loss of a classifier: the cross-entropy, summed over the B samples, and a function
/// that counts the correct predictions.
///
/// `logits` (B, C), `targets` (B) int64.
ATTEND_API TrainingLoss classification_loss(const torch::Tensor& logits,
                                            const torch::Tensor& targets);

}  // namespace attend::train
