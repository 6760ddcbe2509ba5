#include "attend/train/loss.h"

#include "ops/cross_entropy.h"

#include <torch/nn/functional/loss.h>

namespace attend::train {

torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                          double label_smoothing) {
  namespace F = torch::nn::functional;
  const auto rows = logits.flatten(0, -2);  // (targets, V)
  if (label_smoothing > 0.0) {
    const auto type = torch::promoteTypes(logits.scalar_type(), torch::kFloat);
    return F::cross_entropy(rows.to(type), targets.flatten(),
                            F::CrossEntropyFuncOptions()
                                .ignore_index(kIgnoreIndex)
                                .reduction(torch::kSum)
                                .label_smoothing(label_smoothing));
  }
  return summed_cross_entropy(rows, targets.flatten(), kIgnoreIndex);
}

int64_t num_targets(const Batch& batch) {
  return batch.targets.ne(kIgnoreIndex).sum().item<int64_t>();
}

TrainingLoss classification_loss(const torch::Tensor& logits, const torch::Tensor& targets) {
  return {.sum = summed_loss(logits, targets), .exact_match = [=] {
            const auto correct = logits.argmax(-1).eq(targets);  // (B)
            return ExactMatch{correct.sum().item<int64_t>(), correct.numel()};
          }};
}

}  // namespace attend::train
