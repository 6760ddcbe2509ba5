#include "attend/train/task_objective.h"

#include "attend/nn/eval_guard.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/train/confusion_matrix.h"
#include "attend/train/loss.h"
#include "train/autocast_for.h"

namespace attend::train {
namespace {

struct Logits {
  const Batch& batch;

  torch::Tensor operator()(LanguageModel& model) const { return model(batch.tokens); }
  torch::Tensor operator()(SequenceClassifier& model) const {
    return model(batch.tokens, batch.key_mask);
  }
  torch::Tensor operator()(Seq2Seq& model) const {
    return model(batch.tokens, batch.decoder_tokens, batch.key_mask);
  }
};

torch::Device device_of(const torch::nn::Module& module) {
  return module.parameters().front().device();
}

Batch to_device(const Batch& batch, torch::Device device) {
  if (!device.is_cuda()) {
    return map_batch(batch, [&](const torch::Tensor& tensor) { return tensor.to(device); });
  }
  // The copy of a pinned tensor does not wait until the GPU has finished the previous step.
  return map_batch(batch, [&](const torch::Tensor& tensor) {
    return tensor.pin_memory().to(device, /*non_blocking=*/true);
  });
}

/// Evaluates a model. The caller sets eval mode and disables gradients.
Evaluation evaluate_batches(Model& model, const std::vector<Batch>& batches,
                            const EvaluationOptions& options) {
  const auto device = device_of(module_of(model));
  const bool is_classifier = std::holds_alternative<SequenceClassifier>(model);
  return evaluate_in_batches(std::ssize(batches), options, [&](int64_t index) {
    const auto batch = to_device(batches[static_cast<std::size_t>(index)], device);
    const auto logits = logits_of(model, batch);
    Evaluation result{.loss = summed_loss(logits, batch.targets).item<double>(),
                      .exact_match = exact_match(logits, batch),
                      .num_targets = num_targets(batch)};
    if (is_classifier) {
      result.confusion_matrix = confusion_matrix(logits.argmax(-1), batch.targets, logits.size(-1));
    }
    return result;
  });
}

}  // namespace

TaskObjective::TaskObjective(Model model, std::shared_ptr<const Task> task,
                             const TrainingConfig& config)
    : model_(std::move(model)),
      task_(std::move(task)),
      label_smoothing_(config.label_smoothing),
      router_aux_loss_coef_(config.router_aux_loss_coef) {
  TORCH_CHECK_VALUE(task_ != nullptr, "TaskObjective requires a task, found null");
}

TrainingBatch TaskObjective::training_batch(int64_t size, Sampler& sampler) {
  const auto batch = task_->training_batch(size, sampler);
  const auto decoder_tokens = batch.decoder_tokens.defined() ? batch.decoder_tokens.numel() : 0;
  return {num_targets(batch), batch.tokens.numel() + decoder_tokens,
          [this, batch] { return loss(to_device(batch, device_of(module()))); }};
}

TrainingLoss TaskObjective::loss(const Batch& batch) {
  const auto logits = logits_of(model_, batch);
  const auto balance =
      router_aux_loss(module(), [this](torch::Tensor& sums) { processes_->all_reduce(sums); });
  // The trainer averages `auxiliary` over the processes, whose parts of the loss are to be added.
  const auto factor = router_aux_loss_coef_ * static_cast<double>(processes_->world_size());
  return {.sum = summed_loss(logits, batch.targets, label_smoothing_),
          .auxiliary = factor * balance,
          .exact_match = [=] { return exact_match(logits, batch); }};
}

Evaluation TaskObjective::evaluate(const EvaluationOptions& options) {
  if (validation_.empty()) validation_ = task_->validation_batches(kEvalBatchSize);
  return evaluate_batches(model_, validation_, options);
}

torch::Tensor logits_of(Model& model, const Batch& batch) {
  return std::visit(Logits{batch}, model);
}

ExactMatch exact_match(const torch::Tensor& logits, const Batch& batch) {
  if (!batch.answers.defined()) return {};
  const auto wrong = logits.argmax(-1).ne(batch.targets).logical_and(batch.answers);
  const auto rows = batch.answers.view({batch.answers.size(0), -1});  // (B, T) or (B, 1)
  const auto total = rows.any(-1);                                    // (B)
  const auto correct = total.logical_and(wrong.view_as(rows).any(-1).logical_not());
  return {.correct = correct.sum().item<int64_t>(), .total = total.sum().item<int64_t>()};
}

Evaluation evaluate(Model& model, const std::vector<Batch>& batches, Precision precision,
                    const BatchCallback& on_batch) {
  auto& module = module_of(model);
  const EvalGuard eval(module);
  const torch::NoGradGuard no_grad;
  const auto device = device_of(module).type();
  const AutocastGuard autocast(device, autocast_for(precision, device));
  return evaluate_batches(model, batches, {.on_batch = on_batch});
}

Evaluation evaluate(Model& model, const Task& task, Precision precision) {
  return evaluate(model, task.validation_batches(kEvalBatchSize), precision);
}

}  // namespace attend::train
