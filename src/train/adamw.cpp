#include "attend/train/adamw.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>

namespace attend::train {
namespace {

constexpr double kEpsilon = 1e-8;

}  // namespace

AdamW::AdamW(const std::vector<TrainableParameter>& parameters, const TrainingConfig& config)
    : groups_{{config.weight_decay, {}, {}, {}, {}, {}}, {0.0, {}, {}, {}, {}, {}}},
      beta1_(config.beta1),
      beta2_(config.beta2) {
  for (const auto& [name, parameter, role] : parameters) {
    auto& group = groups_[role == ParameterRole::no_decay ? 1 : 0];
    group.names.push_back(name);
    group.parameters.push_back(parameter);
    group.averages.push_back(torch::zeros_like(parameter));
    group.squares.push_back(torch::zeros_like(parameter));
    group.steps.push_back(
        torch::zeros({}, torch::TensorOptions(torch::kFloat).device(parameter.device())));
  }
}

void AdamW::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  for (const auto& group : groups_) step(group, learning_rate);
}

void AdamW::step(const Group& group, double learning_rate) const {
  std::vector<torch::Tensor> parameters, gradients, averages, squares, steps;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    if (!group.parameters[i].grad().defined()) continue;
    parameters.push_back(group.parameters[i]);
    gradients.push_back(group.parameters[i].grad());
    averages.push_back(group.averages[i]);
    squares.push_back(group.squares[i]);
    steps.push_back(group.steps[i]);
  }
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(parameters, gradients, averages, squares, /*max_exp_avg_sqs=*/{}, steps,
                    learning_rate, beta1_, beta2_, group.weight_decay, kEpsilon,
                    /*amsgrad=*/false, /*maximize=*/false);
}

void AdamW::zero_grad() {
  for (auto& group : groups_) {
    for (auto& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

std::map<std::string, torch::Tensor> AdamW::state() const {
  std::map<std::string, torch::Tensor> state;
  for (const auto& group : groups_) {
    for (std::size_t i = 0; i < group.names.size(); ++i) {
      state.emplace(group.names[i] + "/exp_avg", group.averages[i]);
      state.emplace(group.names[i] + "/exp_avg_sq", group.squares[i]);
      state.emplace(group.names[i] + "/step", group.steps[i]);
    }
  }
  return state;
}

}  // namespace attend::train
