// Checkpoints of a trainer.
#include "attend/input_error.h"
#include "attend/io/safetensors.h"
#include "attend/train/sharded_optimizer.h"
#include "attend/train/trainer.h"
#include "ops/rng_state.h"
#include "train/cpu_copies.h"

#include <fmt/format.h>

#include <algorithm>

namespace attend::train {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

constexpr const char* kOptimizer = "optimizer.";
constexpr const char* kSampler = "sampler.";
const std::string kRandom = "random.";
constexpr const char* kObjective = "objective.";
// Name of a uint8 tensor with one element per parameter: 1 if the parameter requires a gradient. A
// parameter that several modules share is counted once.
constexpr const char* kRequiresGrad = "requires_grad";

/// Returns the name under which checkpoints contain the state of a device's generator. The name
/// contains only the type of the device, since a run may be resumed on another GPU. The states of
/// processes other than rank 0 have names such as "random.cpu.1".
std::string rng_name(torch::Device device, int64_t rank = 0) {
  const auto name = kRandom + c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  return rank == 0 ? name : fmt::format("{}.{}", name, rank);
}

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
  add_with_prefix(checkpoint.state, kOptimizer, cpu_copies(state_of(*optimizer_)));
  add_with_prefix(checkpoint.state, kSampler, sampler_.state());  // returns copies
  for (const auto& [device, state] : rng_state(rng_devices(device_))) {
    checkpoint.state.emplace(rng_name(device, processes_->rank()), state);
  }
  checkpoint.state.insert(others_.begin(), others_.end());
  add_with_prefix(checkpoint.state, kObjective, cpu_copies(objective_->state()));
  return checkpoint;
}

int64_t world_size_of(const Checkpoint& checkpoint) {
  const auto cpu = rng_name(torch::kCPU);
  return std::ranges::count_if(checkpoint.state, [&](const auto& item) {
    return item.first == cpu || item.first.starts_with(cpu + '.');
  });
}

void Trainer::collect_others() {
  others_.clear();
  for (const auto& [device, state] : rng_state(rng_devices(device_))) {
    auto states = torch::zeros({processes_->world_size(), state.numel()}, torch::kByte);
    states[processes_->rank()].copy_(state);
    processes_->all_reduce(states);
    for (int64_t rank = 1; rank < states.size(0); ++rank)
      others_.emplace(rng_name(device, rank), states[rank].clone());
  }
  if (const auto* sharded = dynamic_cast<const ShardedOptimizer*>(optimizer_.get()))
    add_with_prefix(others_, kOptimizer, sharded->named_state_of_others());
}

void Trainer::restore(const Checkpoint& checkpoint) {
  load_state_dict(module(), checkpoint.weights);
  const auto requires_grad = checkpoint.state.find(kRequiresGrad);
  const auto count = static_cast<int64_t>(parameters_.size());
  if (requires_grad == checkpoint.state.end() || requires_grad->second.numel() != count) {
    throw InputError(
        fmt::format("the checkpoint's '{}' must have exactly one element for each of the {} "
                    "parameters",
                    kRequiresGrad, count));
  }
  for (int64_t i = 0; i < count; ++i) {
    parameters_[static_cast<std::size_t>(i)].set_requires_grad(
        requires_grad->second[i].item<bool>());
  }
  load_state_of(*optimizer_, without_prefix(checkpoint.state, kOptimizer));
  sampler_.load_state(without_prefix(checkpoint.state, kSampler));
  others_.clear();
  for (const auto& [name, state] : checkpoint.state) {
    if (name.starts_with(kRandom)) others_.emplace(name, state);
  }
  for (const auto& device : rng_devices(device_)) {
    const auto saved = checkpoint.state.find(rng_name(device, processes_->rank()));
    // A checkpoint that was saved during training on the CPU has no state for a GPU's generator. A
    // checkpoint also has no state for a process that has not trained yet.
    if (saved == checkpoint.state.end()) continue;
    set_generator_state(device, saved->second);
    others_.erase(saved->first);
  }
  objective_->load_state(without_prefix(checkpoint.state, kObjective));
  state_ = checkpoint.trainer_state;
  best_weights_ = cpu_copies(checkpoint.best);
  reported_seconds_ = state_.training_seconds;
  reported_tokens_ = state_.tokens;
}

}  // namespace attend::train
