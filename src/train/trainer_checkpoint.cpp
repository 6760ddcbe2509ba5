// Checkpoints of a trainer.
#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/train/trainer.h"
#include "ops/rng_state.h"
#include "train/cpu_copies.h"

#include <fmt/format.h>

namespace attend::train {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

constexpr const char* kOptimizer = "optimizer.";
constexpr const char* kSampler = "sampler.";
constexpr const char* kRandom = "random.";
constexpr const char* kObjective = "objective.";
constexpr const char* kRequiresGrad =
    "requires_grad";  // uint8, one per parameter, counting shared parameters once

void add_with_prefix(Tensors& all, const std::string& prefix, const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors) all.emplace(prefix + name, tensor);
}

Tensors without_prefix(const Tensors& all, const std::string& prefix) {
  Tensors selected;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) selected.emplace(name.substr(prefix.size()), tensor);
  }
  return selected;
}

}  // namespace

Checkpoint Trainer::checkpoint() const {
  std::vector<uint8_t> requires_grad;
  for (const auto& parameter : parameters_) requires_grad.push_back(parameter.requires_grad());
  Checkpoint checkpoint{.trainer_state = state_,
                        .weights = cpu_copies(state_dict(module())),
                        .state = {{kRequiresGrad, torch::tensor(requires_grad, torch::kByte)}},
                        .best = best_weights_};
  add_with_prefix(checkpoint.state, kOptimizer, cpu_copies(optimizer_->state()));
  add_with_prefix(checkpoint.state, kSampler, sampler_.state());  // returns copies
  add_with_prefix(checkpoint.state, kRandom, rng_state(device_));
  add_with_prefix(checkpoint.state, kObjective, cpu_copies(objective_->state()));
  return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint) {
  load_state_dict(module(), checkpoint.weights);
  const auto requires_grad = checkpoint.state.find(kRequiresGrad);
  const auto count = static_cast<int64_t>(parameters_.size());
  if (requires_grad == checkpoint.state.end() || requires_grad->second.numel() != count) {
    throw InputError(
        fmt::format("the checkpoint's '{}' does not have an entry for each of the {} "
                    "parameters",
                    kRequiresGrad, count));
  }
  for (int64_t i = 0; i < count; ++i) {
    parameters_[static_cast<std::size_t>(i)].set_requires_grad(
        requires_grad->second[i].item<bool>());
  }
  optimizer_->load_state(without_prefix(checkpoint.state, kOptimizer));
  sampler_.load_state(without_prefix(checkpoint.state, kSampler));
  set_rng_state(device_, without_prefix(checkpoint.state, kRandom));
  objective_->load_state(without_prefix(checkpoint.state, kObjective));
  state_ = checkpoint.trainer_state;
  best_weights_ = cpu_copies(checkpoint.best);
  reported_seconds_ = state_.training_seconds;
  reported_tokens_ = state_.tokens;
}

}  // namespace attend::train
