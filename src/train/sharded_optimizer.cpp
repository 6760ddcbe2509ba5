#include "attend/train/sharded_optimizer.h"

#include "train/processes.h"

#include <algorithm>
#include <functional>

namespace attend::train {
namespace {

using Tensors = std::map<std::string, torch::Tensor>;

}  // namespace

ShardedOptimizer::ShardedOptimizer(std::shared_ptr<Optimizer> optimizer,
                                   std::shared_ptr<Processes> processes)
    : Optimizer(optimizer->param_groups().front()),
      optimizer_(std::move(optimizer)),
      processes_(std::move(processes)) {
  for (auto* slot : slots_of(*optimizer_)) owners_.emplace_back(slot, 0);
  std::vector<std::pair<std::size_t, int64_t*>> by_size;  // bytes of the state, and the owner
  for (auto& [slot, owner] : owners_) {
    std::size_t bytes = 0;
    for (const auto& item : slot->initial_state(slot->parameter)) bytes += item.second.nbytes();
    by_size.emplace_back(bytes, &owner);
  }
  std::ranges::stable_sort(by_size, std::greater(), &decltype(by_size)::value_type::first);
  std::vector<std::size_t> parts(static_cast<std::size_t>(processes_->world_size()));  // bytes
  for (const auto& [bytes, owner] : by_size) {
    const auto least = std::ranges::min_element(parts);
    *least += bytes;
    *owner = least - parts.begin();
  }
}

void ShardedOptimizer::distribute() {
  for (const auto& [slot, owner] : owners_) {
    if (owner != processes_->rank()) slot->state.clear();
  }
  is_whole_ = false;
}

void ShardedOptimizer::update(double lr) {
  distribute();
  std::map<int64_t, std::vector<torch::Tensor>> changed;        // parameters by owner
  std::vector<std::pair<torch::Tensor, torch::Tensor>> hidden;  // parameter and gradient
  for (const auto& [slot, owner] : owners_) {
    const bool is_own = owner == processes_->rank();
    if (!slot->has_grad()) continue;
    changed[owner].push_back(slot->parameter);
    // The optimizer does not update a parameter without a gradient.
    if (!is_own)
      hidden.emplace_back(slot->parameter, std::exchange(slot->parameter.mutable_grad(), {}));
  }
  set_lr(*optimizer_, lr);
  optimizer_->step();
  for (const auto& [parameter, gradient] : hidden) parameter.mutable_grad() = gradient;
  for (const auto& [owner, parameters] : changed) broadcast_values(*processes_, parameters, owner);
}

std::vector<Optimizer::Slot*> ShardedOptimizer::slots() const {
  std::vector<Slot*> kept;
  for (const auto& [slot, owner] : owners_) {
    if (is_whole_ || owner == processes_->rank()) kept.push_back(slot);
  }
  return kept;
}

void ShardedOptimizer::load_named_state(const Tensors& state) {
  optimizer_->load_named_state(state);
  is_whole_ = true;
}

Tensors ShardedOptimizer::named_state_of_others() const {
  Tensors others;
  for (int64_t rank = 1; !is_whole_ && rank < processes_->world_size(); ++rank) {
    auto part =
        broadcast(*processes_, processes_->rank() == rank ? named_state() : Tensors(), rank);
    if (processes_->rank() == 0) others.merge(part);
  }
  return others;
}

}  // namespace attend::train
