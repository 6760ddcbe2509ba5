#include "attend/train/optimizer.h"

#include "attend/input_error.h"
#include "attend/nn/trainable_parameters.h"
#include "attend/train/adamw.h"
#include "attend/train/muon.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
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

std::string describe(const torch::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().vec(), ", "));
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
  std::vector<std::string> differences;
  std::set<std::string> known;
  for (const auto* slot : slots()) {
    const auto expected = slot->state.empty() ? slot->initial_state(slot->parameter) : slot->state;
    const bool is_needed = slot->parameter.requires_grad() || slot->is_in(state);
    for (const auto& [key, tensor] : expected) {
      const auto name = slot->full_name(key);
      known.insert(name);
      const auto found = state.find(name);
      if (found == state.end()) {
        if (is_needed) differences.push_back(fmt::format("{}: missing", name));
      } else if (describe(found->second) != describe(tensor)) {
        differences.push_back(fmt::format("{}: found {}, expected {}", name,
                                          describe(found->second), describe(tensor)));
      }
    }
  }
  for (const auto& item : state) {
    if (!known.contains(item.first)) differences.push_back(fmt::format("{}: unknown", item.first));
  }
  if (!differences.empty()) {
    throw InputError(fmt::format("the optimizer state does not fit the model: {}",
                                 fmt::join(differences, "; ")));
  }
  const torch::NoGradGuard no_grad;
  for (auto* slot : slots()) {
    if (!slot->is_in(state)) {
      slot->state.clear();
      continue;
    }
    for (auto& [key, tensor] : slot->ensure_state()) tensor.copy_(state.at(slot->full_name(key)));
  }
}

std::unique_ptr<Optimizer> make_optimizer(const torch::nn::Module& module,
                                          const TrainingConfig& config) {
  auto parameters = trainable_parameters(module, /*include_frozen=*/true);
  switch (config.optimizer) {
    case OptimizerKind::adamw:
      return std::make_unique<AdamW>(parameters, config);
    case OptimizerKind::muon:
      return make_muon(std::move(parameters), config);
  }
  TORCH_CHECK_VALUE(false, "unknown optimizer ", static_cast<int>(config.optimizer));
}

}  // namespace attend::train
