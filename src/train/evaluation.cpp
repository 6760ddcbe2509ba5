#include "attend/train/evaluation.h"

#include "attend/nn/eval_scope.h"

#include <torch/nn/functional/loss.h>

namespace attend::train {
namespace {

constexpr int64_t kBatch = 64;  // sequences at once: bounds the memory, does not change the result

}  // namespace

torch::Tensor batch_loss(const torch::Tensor& logits, const Batch& batch,
                         torch::nn::functional::CrossEntropyFuncOptions::reduction_t reduction) {
  const auto options =
      torch::nn::functional::CrossEntropyFuncOptions().ignore_index(kIgnored).reduction(
          std::move(reduction));
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), batch.targets.flatten(),
                                              options);
}

Evaluation evaluate(LanguageModel& model, const Task& task) {
  const EvalScope eval(*model);
  const torch::NoGradGuard no_grad;
  const auto sum =
      torch::nn::functional::CrossEntropyFuncOptions().ignore_index(kIgnored).reduction(
          torch::kSum);
  Evaluation result;
  int64_t answers = 0;
  int64_t right = 0;
  for (const auto& batch : task.validation_batches(kBatch)) {
    const auto logits = model(batch.tokens);  // (B, T, V)
    const auto loss =
        torch::nn::functional::cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), sum);
    result.loss += loss.item<double>();
    result.tokens += batch.targets.ne(kIgnored).sum().item<int64_t>();
    if (batch.answers.defined()) {
      const auto predicted = logits.argmax(-1);  // (B, T)
      answers += batch.answers.sum().item<int64_t>();
      right += predicted.eq(batch.targets).logical_and(batch.answers).sum().item<int64_t>();
    }
  }
  result.loss /= static_cast<double>(result.tokens);
  if (answers > 0) result.accuracy = static_cast<double>(right) / static_cast<double>(answers);
  return result;
}

}  // namespace attend::train
