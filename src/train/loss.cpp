#include "attend/train/loss.h"

#include <torch/nn/functional/loss.h>

namespace attend::train {

torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                          double label_smoothing) {
  const auto options = torch::nn::functional::CrossEntropyFuncOptions()
                           .ignore_index(kIgnoreIndex)
                           .reduction(torch::kSum)
                           .label_smoothing(label_smoothing);
  // The loss of float16 and bfloat16 logits is computed in float32.
  const auto rows = logits.flatten(0, -2).to(  // (targets, V)
      torch::promoteTypes(logits.scalar_type(), torch::kFloat));
  return torch::nn::functional::cross_entropy(rows, targets.flatten(), options);
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
