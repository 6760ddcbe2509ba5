#include "attend/train/adamw.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>

namespace attend::train {
namespace {

constexpr double kEpsilon = 1e-8;

std::map<std::string, torch::Tensor> initial_adamw_state(const torch::Tensor& parameter) {
  return {
      {"exp_avg", torch::zeros_like(parameter)},
      {"exp_avg_sq", torch::zeros_like(parameter)},
      // the fused kernel requires a float tensor on the parameter's device
      {"step", torch::zeros({}, torch::TensorOptions(torch::kFloat).device(parameter.device()))}};
}

}  // namespace

AdamW::AdamW(const std::vector<TrainableParameter>& parameters, const TrainingConfig& config)
    : Optimizer(parameters, config.lr),
      weight_decay_(config.weight_decay),
      beta1_(config.beta1),
      beta2_(config.beta2) {
  for (const auto& [name, parameter, role] : parameters)
    slots_.push_back({name, parameter, role, initial_adamw_state});
}

void AdamW::update(double lr) {
  for (const bool decay : {true, false}) update(decay, lr);
}

void AdamW::update(bool decay, double lr) {
  std::vector<torch::Tensor> parameters, gradients, averages, squares, steps;
  for (auto& slot : slots_) {
    if (!slot.has_grad() || (slot.role != ParameterRole::no_decay) != decay) continue;
    auto& state = slot.ensure_state();
    parameters.push_back(slot.parameter);
    gradients.push_back(slot.parameter.grad());
    averages.push_back(state.at("exp_avg"));
    squares.push_back(state.at("exp_avg_sq"));
    steps.push_back(state.at("step"));
  }
  if (parameters.empty()) return;
  at::_foreach_add_(steps, 1);
  at::_fused_adamw_(parameters, gradients, averages, squares, /*max_exp_avg_sqs=*/{}, steps, lr,
                    beta1_, beta2_, decay ? weight_decay_ : 0.0, kEpsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

}  // namespace attend::train
