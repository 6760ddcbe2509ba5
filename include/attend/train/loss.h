#pragma once

#include "attend/train/batch.h"

namespace attend::train {

/// The sum over all targets that count of the cross-entropy with the scores `logits` (..., V), in
/// nats. `label_smoothing` is the share of a target's weight that all V share (Szegedy et al.
/// 2016).
torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                          double label_smoothing = 0.0);

/// How many targets count.
int64_t counted_targets(const Batch& batch);

}  // namespace attend::train
