#include "attend/train/evaluation.h"

#include "attend/nn/eval_scope.h"
#include "attend/train/loss.h"
#include "attend/train/task.h"

namespace attend::train {

AnswerCount& AnswerCount::operator+=(const AnswerCount& other) {
  right += other.right;
  asked += other.asked;
  return *this;
}

std::optional<double> AnswerCount::accuracy() const {
  if (asked == 0) return std::nullopt;
  return static_cast<double>(right) / static_cast<double>(asked);
}

AnswerCount count_answers(const torch::Tensor& logits, const Batch& batch) {
  if (!batch.answers.defined()) return {};
  const auto wrong = logits.argmax(-1).ne(batch.targets).logical_and(batch.answers);
  const auto rows = batch.answers.view({batch.answers.size(0), -1});  // (B, T) or (B, 1)
  const auto asked = rows.any(-1);                                    // (B)
  const auto right = asked.logical_and(wrong.view_as(rows).any(-1).logical_not());
  return {.right = right.sum().item<int64_t>(), .asked = asked.sum().item<int64_t>()};
}

Evaluation evaluate(Model& model, const std::vector<Batch>& batches) {
  auto& module = module_of(model);
  const EvalScope eval(module);
  const torch::NoGradGuard no_grad;
  const auto device = module.parameters().front().device();
  Evaluation result;
  AnswerCount answers;
  for (const auto& rows : batches) {
    const auto batch =
        map_batch(rows, [&](const torch::Tensor& tensor) { return tensor.to(device); });
    const auto logits = logits_of(model, batch);
    result.loss += summed_loss(logits, batch.targets).item<double>();
    result.targets += counted_targets(batch);
    answers += count_answers(logits, batch);
  }
  result.loss /= static_cast<double>(result.targets);
  result.accuracy = answers.accuracy();
  return result;
}

Evaluation evaluate(Model& model, const Task& task) {
  return evaluate(model, task.validation_batches(kRowsAtOnce));
}

}  // namespace attend::train
