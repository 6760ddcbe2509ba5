#include "attend/train/task_objective.h"

#include "attend/nn/mixture_of_experts.h"
#include "attend/train/loss.h"

namespace attend::train {
namespace {

TrainingBatch pack(const Batch& batch) {
  const auto decoder_tokens = batch.decoder_tokens.defined() ? batch.decoder_tokens.numel() : 0;
  return {{batch.tokens, batch.targets, batch.answers, batch.key_mask, batch.decoder_tokens},
          counted_targets(batch),
          batch.tokens.numel() + decoder_tokens};
}

Batch unpack(const TrainingBatch& batch) {
  const auto& tensors = batch.tensors;
  return {tensors[0], tensors[1], tensors[2], tensors[3], tensors[4]};
}

}  // namespace

TaskObjective::TaskObjective(Model model, std::shared_ptr<const Task> task,
                             const TrainingConfig& config)
    : model_(std::move(model)),
      task_(std::move(task)),
      label_smoothing_(config.label_smoothing),
      router_aux_loss_coef_(config.router_aux_loss_coef) {}

TrainingBatch TaskObjective::training_batch(int64_t size, Sampler& sampler) {
  return pack(task_->training_batch(size, sampler));
}

TrainingLoss TaskObjective::training_loss(const TrainingBatch& batch) {
  const auto rows = unpack(batch);
  const auto logits = logits_of(model_, rows);
  return {.sum = summed_loss(logits, rows.targets, label_smoothing_),
          .auxiliary = router_aux_loss_coef_ * router_aux_loss(module()),
          .exact_match = [=] { return exact_match(logits, rows); }};
}

Evaluation TaskObjective::evaluate() {
  return train::evaluate(model_, *task_);
}

}  // namespace attend::train
