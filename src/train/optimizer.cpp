#include "attend/train/optimizer.h"

#include "attend/train/adamw.h"
#include "attend/train/muon.h"
#include "io/copy_state.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace attend::train {
namespace {

using State = std::map<std::string, torch::Tensor>;

/// Muon for the hidden matrices, AdamW for the rest.
class MuonWithAdamW : public Optimizer {
 public:
  MuonWithAdamW(const std::vector<TrainableParameter>& matrices,
                const std::vector<TrainableParameter>& rest, const TrainingConfig& config)
      : muon_(matrices, config), adamw_(rest, config) {}

  void step(double lr) override {
    muon_.step(lr);
    adamw_.step(lr);
  }

 protected:
  std::vector<Slot*> slots() override {
    auto all = slots_of(muon_);
    const auto rest = slots_of(adamw_);
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

 private:
  Muon muon_;
  AdamW adamw_;
};

std::unique_ptr<Optimizer> make_muon(std::vector<TrainableParameter> parameters,
                                     const TrainingConfig& config) {
  const auto rest = std::stable_partition(
      parameters.begin(), parameters.end(),
      [](const auto& parameter) { return parameter.role == ParameterRole::hidden_matrix; });
  return std::make_unique<MuonWithAdamW>(std::vector(parameters.begin(), rest),
                                         std::vector(rest, parameters.end()), config);
}

}  // namespace

bool Optimizer::Slot::is_in(const State& all) const {
  const auto found = all.lower_bound(full_name(""));
  return found != all.end() && found->first.starts_with(full_name(""));
}

State& Optimizer::Slot::ensure_state() {
  if (state.empty()) state = initial_state(parameter);
  return state;
}

std::vector<Optimizer::Slot*> Optimizer::slots() {
  std::vector<Slot*> all;
  for (auto& slot : slots_) all.push_back(&slot);
  return all;
}

void Optimizer::zero_grad() {
  for (auto* slot : slots()) slot->parameter.mutable_grad().reset();
}

State Optimizer::state() {
  State all;
  for (auto* slot : slots()) {
    if (slot->parameter.requires_grad()) slot->ensure_state();
    for (const auto& [key, tensor] : slot->state) all.emplace(slot->full_name(key), tensor);
  }
  return all;
}

void Optimizer::load_state(const State& state) {
  State destination;
  std::vector<State> loaded;
  for (auto* slot : slots()) {
    const bool is_needed = slot->parameter.requires_grad() || slot->is_in(state);
    auto& own = loaded.emplace_back();
    if (is_needed) own = slot->state.empty() ? slot->initial_state(slot->parameter) : slot->state;
    for (const auto& [key, tensor] : own) destination.emplace(slot->full_name(key), tensor);
  }
  copy_state(destination, state, "optimizer state");
  auto next = loaded.begin();
  for (auto* slot : slots()) slot->state = std::move(*next++);
}

std::unique_ptr<Optimizer> make_optimizer(ConstModuleRef module, const TrainingConfig& config) {
  auto parameters = trainable_parameters(module, /*include_frozen=*/true);
  switch (config.optimizer) {
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(parameters, config);
    case OptimizerKind::muon:
      return make_muon(std::move(parameters), config);
  }
  C10_THROW_ERROR(ValueError, c10::str("unknown optimizer ", static_cast<int>(config.optimizer)));
}

}  // namespace attend::train
