#pragma once

#include "attend/api.h"

#include <torch/types.h>

namespace attend {

/// Returns the cross-entropy (0-dim), summed over the targets that are not `ignore_index`.
///
/// `logits` (N, V), `targets` (N) int64. The loss of logits in half precision is computed in
/// float32. On a CPU, a kernel of attend computes the loss of logits in float32 and bfloat16.
/// Neither the kernel nor the operators for other logits in half precision, as on a GPU, store
/// log-probabilities for the backward pass. Other calls, double backward and traces use
/// `log_softmax` and `nll_loss` of LibTorch.
ATTEND_API torch::Tensor summed_cross_entropy(const torch::Tensor& logits,
                                              const torch::Tensor& targets, int64_t ignore_index);

}  // namespace attend
