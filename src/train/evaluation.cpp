#include "attend/train/evaluation.h"

#include "attend/nn/eval_guard.h"
#include "attend/train/loss.h"
#include "attend/train/task.h"

namespace attend::train {

ExactMatch& ExactMatch::operator+=(const ExactMatch& other) {
  correct += other.correct;
  total += other.total;
  return *this;
}

std::optional<double> ExactMatch::accuracy() const {
  if (total == 0) return std::nullopt;
  return static_cast<double>(correct) / static_cast<double>(total);
}

ExactMatch exact_match(const torch::Tensor& logits, const Batch& batch) {
  if (!batch.answers.defined()) return {};
  const auto wrong = logits.argmax(-1).ne(batch.targets).logical_and(batch.answers);
  const auto rows = batch.answers.view({batch.answers.size(0), -1});  // (B, T) or (B, 1)
  const auto total = rows.any(-1);                                    // (B)
  const auto correct = total.logical_and(wrong.view_as(rows).any(-1).logical_not());
  return {.correct = correct.sum().item<int64_t>(), .total = total.sum().item<int64_t>()};
}

Evaluation evaluate(Model& model, const std::vector<Batch>& batches) {
  auto& module = module_of(model);
  const EvalGuard eval(module);
  const torch::NoGradGuard no_grad;
  const auto device = module.parameters().front().device();
  Evaluation result;
  ExactMatch matches;
  for (const auto& rows : batches) {
    const auto batch =
        map_batch(rows, [&](const torch::Tensor& tensor) { return tensor.to(device); });
    const auto logits = logits_of(model, batch);
    result.loss += summed_loss(logits, batch.targets).item<double>();
    result.targets += counted_targets(batch);
    matches += exact_match(logits, batch);
  }
  result.loss /= static_cast<double>(result.targets);
  result.accuracy = matches.accuracy();
  return result;
}

Evaluation evaluate(Model& model, const Task& task) {
  return evaluate(model, task.validation_batches(kRowsAtOnce));
}

}  // namespace attend::train
