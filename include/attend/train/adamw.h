#pragma once

#include "attend/train/recipe.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <vector>

namespace attend::train {

/// AdamW (Loshchilov and Hutter 2019) with LibTorch's fused kernel: one pass over parameter,
/// gradient and both moments, where torch::optim::AdamW makes about ten. Weight decay applies to
/// those that `parameter_groups` says; parameters that are frozen when it is made stay as they are.
///
///     AdamW optimizer(*model, recipe.training);
///     optimizer.zero_grad();
///     loss.backward();
///     optimizer.step(learning_rate);
class AdamW {
 public:
  AdamW(const torch::nn::Module& module, const TrainingConfig& config);

  /// Updates every parameter that has a gradient.
  void step(double learning_rate);
  void zero_grad();

 private:
  struct Group {
    double weight_decay;
    std::vector<torch::Tensor> parameters;
    std::vector<torch::Tensor> averages;  // of the gradient
    std::vector<torch::Tensor> squares;   // of its square
    std::vector<torch::Tensor> steps;     // 0-dim float, as the kernel wants them
  };
  /// The state before the first step.
  static Group start(const std::vector<torch::Tensor>& parameters, double weight_decay);

  std::vector<Group> groups_;
  double beta1_;
  double beta2_;
};

}  // namespace attend::train
