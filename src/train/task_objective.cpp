#include "attend/train/task_objective.h"

#include "attend/input_error.h"
#include "attend/nn/eval_guard.h"
#include "attend/nn/lora.h"
#include "attend/nn/mixture_of_experts.h"
#include "attend/train/confusion_matrix.h"
#include "attend/train/entities.h"
#include "attend/train/loss.h"
#include "train/autocast_for.h"
#include "train/problem_rules.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

struct Logits {
  const Batch& batch;

  torch::Tensor operator()(LanguageModel& model) const {
    return model(batch.tokens, {.segments = batch.segments, .positions = batch.positions});
  }
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

Batch to_device(const Batch& narrow, torch::Device device) {
  const auto batch = with_int64(narrow);
  if (!device.is_cuda()) {
    return map_batch(batch, [&](const torch::Tensor& tensor) { return tensor.to(device); });
  }
  // The copy of a pinned tensor does not wait until the GPU has finished the previous step.
  return map_batch(batch, [&](const torch::Tensor& tensor) {
    return tensor.pin_memory().to(device, /*non_blocking=*/true);
  });
}

/// Throws InputError if evaluations of the task, with its validation data, do not have the metric.
void check_has(BestMetric metric, const Task& task, const std::vector<Batch>& validation) {
  const bool has_accuracy = validation.front().answers.defined();
  const bool has_f1 = has_accuracy && !task.classes().empty();
  if (metric == BestMetric::accuracy ? has_accuracy : has_f1) return;
  throw InputError(
      fmt::format("`best_metric = {}` requires {}, which the task does not have; expected loss{}",
                  to_string(metric), metric == BestMetric::f1 ? "a classification" : "an accuracy",
                  has_accuracy ? " or accuracy" : ""));
}

/// Evaluates a model. The caller sets eval mode and disables gradients.
Evaluation evaluate_batches(Model& model, const std::vector<Batch>& batches,
                            const EvaluationOptions& options) {
  const auto device = device_of(module_of(model));
  const bool is_classifier = std::holds_alternative<SequenceClassifier>(model);
  auto evaluation = evaluate_in_batches(std::ssize(batches), options, [&](int64_t index) {
    const auto batch = to_device(batches[static_cast<std::size_t>(index)], device);
    const auto logits = logits_of(model, batch);
    const auto& rules = rules_of(batch.problem.type);
    Evaluation result{.loss = rules.loss(logits, batch, /*label_smoothing=*/0.0, {}).item<double>(),
                      .exact_match = rules.exact_match(logits, batch),
                      .num_targets = rules.num_targets(batch)};
    if (is_classifier) rules.measure(logits, batch, result);
    return result;
  });
  if (evaluation.f1 && !batches.empty() && !entity_types(batches.front().problem.tags).empty())
    evaluation.f1 = micro_f1(evaluation.confusion_matrix);
  return evaluation;
}

/// Number of tokens that are inputs of the model. Padding that the model does not read is not
/// counted: how much of it a batch has depends on the samples that are in the same batch.
/// `num_targets`: that of the batch.
int64_t num_tokens(const Batch& batch, int64_t num_targets) {
  const auto tokens =
      batch.key_mask.defined() ? batch.key_mask.sum().item<int64_t>() : batch.tokens.numel();
  if (!batch.decoder_tokens.defined()) return tokens;
  return tokens + num_targets;  // a target per token of the decoder
}

}  // namespace

TaskObjective::TaskObjective(Model model, std::shared_ptr<const Task> task,
                             const TrainingConfig& config)
    : model_(std::move(model)),
      task_(std::move(task)),
      label_smoothing_(config.label_smoothing),
      router_aux_loss_coef_(config.router_aux_loss_coef) {
  TORCH_CHECK_VALUE(task_ != nullptr, "TaskObjective requires a task, found null");
  if (config.best_metric != BestMetric::loss) {
    validation_ = task_->validation_batches(kEvalBatchSize);
    check_has(config.best_metric, *task_, validation_);
  }
  class_weights_ = task_->class_weights();
  if (lora_adapters(module()).empty()) return;
  for (const auto& parameter : module().named_parameters()) {
    if (!parameter.value().requires_grad()) base_.insert(parameter.key());
  }
}

TrainingBatch TaskObjective::training_batch(int64_t size, Sampler& sampler) {
  const auto batch = task_->training_batch(size, sampler);
  const auto targets = num_targets(batch);
  return {targets, num_tokens(batch, targets),
          [this, batch] { return loss(to_device(batch, device_of(module()))); }};
}

TrainingLoss TaskObjective::loss(const Batch& batch) {
  const auto logits = logits_of(model_, batch);
  if (class_weights_.defined()) class_weights_ = class_weights_.to(logits.device());
  const auto balance =
      router_aux_loss(module(), [this](torch::Tensor& sums) { processes_->all_reduce(sums); });
  // The trainer averages `auxiliary` over the processes, whose parts of the loss are to be added.
  const auto factor = router_aux_loss_coef_ * static_cast<double>(processes_->world_size());
  const auto& rules = rules_of(batch.problem.type);
  return {.sum = rules.loss(logits, batch, label_smoothing_, class_weights_),
          .auxiliary = factor * balance,
          .exact_match = [=] { return exact_match(logits, batch); }};
}

Evaluation TaskObjective::evaluate(const EvaluationOptions& options) {
  if (validation_.empty()) validation_ = task_->validation_batches(kEvalBatchSize);
  return evaluate_batches(model_, validation_, options);
}

torch::Tensor logits_of(Model& model, const Batch& batch) {
  return std::visit(Logits{with_int64(batch)}, model);
}

ExactMatch exact_match(const torch::Tensor& logits, const Batch& batch) {
  return rules_of(batch.problem.type).exact_match(logits, with_int64(batch));
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
