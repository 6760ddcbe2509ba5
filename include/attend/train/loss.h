#pragma once

#include "attend/api.h"
#include "attend/train/batch.h"
#include "attend/train/objective.h"

#include <string>

namespace attend::train {

/// Returns the cross-entropy (0-dim), summed over all targets that are not `kIgnoreIndex`.
///
/// `logits` (..., V), `targets` (...) int64. Logits in half precision are converted to float32.
/// `label_smoothing` as in torch's cross_entropy (Szegedy et al. 2016). `class_weights` (V), any
/// floating dtype, on the device of the logits: factors of the losses of the classes, as `weight`
/// of torch's cross_entropy; undefined = 1.
ATTEND_API torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                                     double label_smoothing = 0.0,
                                     const torch::Tensor& class_weights = {});

/// Returns the weights of classes (C), float32, for `summed_loss`. Their mean over the samples is
/// 1, so that they do not change the size of the loss. `spec` is one of
/// - "none": the result is undefined
/// - "balanced": inverse to the number of samples, as scikit-learn's `class_weight="balanced"`
/// - a positive number for each class, separated by commas; only their ratios matter
///
/// `counts` (C) int64: number of training samples of each class. Throws InputError if `spec` is
/// something else; the message contains it.
///
///     auto weights = class_weights("balanced", torch::tensor({90, 10}));  // 0.56, 5
ATTEND_API torch::Tensor class_weights(const std::string& spec, const torch::Tensor& counts);

/// Returns the number of targets: tokens or classes that are not `kIgnoreIndex`, or the samples of
/// a batch of labels or numbers.
ATTEND_API int64_t num_targets(const Batch& batch);

/// Returns the loss of a classifier: the cross-entropy, summed over the B samples, and a function
/// that counts the correct predictions.
///
/// `logits` (B, C), `targets` (B) int64. `class_weights` (C): see `summed_loss`.
ATTEND_API TrainingLoss classification_loss(const torch::Tensor& logits,
                                            const torch::Tensor& targets,
                                            const torch::Tensor& class_weights = {});

/// Returns the loss of a multi-label classifier: the binary cross-entropy, averaged over the C
/// labels and summed over the B samples, and a function that counts the samples whose labels are
/// all predicted correctly, with the threshold 0.5.
///
/// `logits` (B, C), `targets` (B, C), 0 or 1, any floating dtype.
///
///     auto loss = multi_label_loss(classifier(tokens), batch.targets);
ATTEND_API TrainingLoss multi_label_loss(const torch::Tensor& logits, const torch::Tensor& targets);

/// Returns the squared error, averaged over the dimensions after the first and summed over the B
/// samples.
///
/// `predicted` (B, ...), `targets`: the same shape.
///
///     auto loss = regression_loss(classifier(tokens), batch.targets);
ATTEND_API TrainingLoss regression_loss(const torch::Tensor& predicted,
                                        const torch::Tensor& targets);

/// Returns the probabilities of labels, of the shape of `logits`: their sigmoids.
ATTEND_API torch::Tensor label_probabilities(const torch::Tensor& logits);

}  // namespace attend::train
