#include "attend/train/adamw.h"

#include "attend/nn/parameter_groups.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adamw.h>

namespace attend::train {
namespace {

constexpr double kEpsilon = 1e-8;

}  // namespace

AdamW::AdamW(const torch::nn::Module& module, const TrainingConfig& config)
    : beta1_(config.beta1), beta2_(config.beta2) {
  const auto parameters = parameter_groups(module);
  groups_ = {start(parameters.decayed, config.weight_decay), start(parameters.others, 0.0)};
}

AdamW::Group AdamW::start(const std::vector<torch::Tensor>& parameters, double weight_decay) {
  Group group{weight_decay, parameters, {}, {}, {}};
  for (const auto& parameter : parameters) {
    group.averages.push_back(torch::zeros_like(parameter));
    group.squares.push_back(torch::zeros_like(parameter));
    group.steps.push_back(torch::zeros({}, torch::TensorOptions(parameter.device())));
  }
  return group;
}

void AdamW::step(double learning_rate) {
  const torch::NoGradGuard no_grad;
  for (auto& group : groups_) {
    std::vector<torch::Tensor> parameters, gradients, averages, squares, steps;
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      if (!group.parameters[i].grad().defined()) continue;
      parameters.push_back(group.parameters[i]);
      gradients.push_back(group.parameters[i].grad());
      averages.push_back(group.averages[i]);
      squares.push_back(group.squares[i]);
      steps.push_back(group.steps[i]);
    }
    if (parameters.empty()) continue;
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(parameters, gradients, averages, squares, /*max_exp_avg_sqs=*/{}, steps,
                      learning_rate, beta1_, beta2_, group.weight_decay, kEpsilon,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
}

void AdamW::zero_grad() {
  for (auto& group : groups_) {
    for (auto& parameter : group.parameters) parameter.mutable_grad().reset();
  }
}

}  // namespace attend::train
