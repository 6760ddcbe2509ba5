#include "attend/train/loss.h"

#include <torch/nn/functional/loss.h>

namespace attend::train {

torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& targets,
                          double label_smoothing) {
  namespace F = torch::nn::functional;
  // The loss of float16 and bfloat16 logits is computed in float32.
  const auto type = torch::promoteTypes(logits.scalar_type(), torch::kFloat);
  const auto rows = logits.flatten(0, -2);  // (targets, V)
  if (label_smoothing > 0.0) {
    return F::cross_entropy(rows.to(type), targets.flatten(),
                            F::CrossEntropyFuncOptions()
                                .ignore_index(kIgnoreIndex)
                                .reduction(torch::kSum)
                                .label_smoothing(label_smoothing));
  }
  // The same as cross_entropy, but on a GPU, log_softmax needs no copy of the logits in float32.
  return F::nll_loss(torch::log_softmax(rows, -1, type), targets.flatten(),
                     F::NLLLossFuncOptions().ignore_index(kIgnoreIndex).reduction(torch::kSum));
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
