#include "attend/train/evaluation.h"

#include "attend/nn/eval_scope.h"
#include "attend/train/loss.h"
#include "attend/train/task.h"

namespace attend::train {
namespace {

/// How often something was right.
struct Tally {
  int64_t right = 0;
  int64_t all = 0;

  void add(const torch::Tensor& logits, const Batch& batch) {
    const auto wrong = logits.argmax(-1).ne(batch.targets).logical_and(batch.answers);
    const auto rows = batch.answers.view({batch.answers.size(0), -1});  // (B, T) or (B, 1)
    const auto asked = rows.any(-1);                                    // (B)
    all += asked.sum().item<int64_t>();
    right += asked.logical_and(wrong.view_as(rows).any(-1).logical_not()).sum().item<int64_t>();
  }
};

}  // namespace

Evaluation evaluate(Model& model, const std::vector<Batch>& batches) {
  auto& module = module_of(model);
  const EvalScope eval(module);
  const torch::NoGradGuard no_grad;
  const auto device = module.parameters().front().device();
  Evaluation result;
  Tally tally;
  for (const auto& rows : batches) {
    const auto batch =
        map_batch(rows, [&](const torch::Tensor& tensor) { return tensor.to(device); });
    const auto logits = logits_of(model, batch);
    result.loss += summed_loss(logits, batch.targets).item<double>();
    result.tokens += counted_targets(batch);
    if (batch.answers.defined()) tally.add(logits, batch);
  }
  result.loss /= static_cast<double>(result.tokens);
  if (tally.all > 0) {
    result.accuracy = static_cast<double>(tally.right) / static_cast<double>(tally.all);
  }
  return result;
}

Evaluation evaluate(Model& model, const Task& task) {
  return evaluate(model, task.validation_batches(kRowsAtOnce));
}

}  // namespace attend::train
