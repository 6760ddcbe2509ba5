#pragma once

#include "attend/nn/trainable_parameters.h"
#include "attend/train/optimizer.h"

#include <vector>

namespace attend::train {

/// AdamW (Loshchilov and Hutter 2019) with LibTorch's fused kernel: one pass over parameter,
/// gradient and both moments, where torch::optim::AdamW makes about ten. Weight decay applies to
/// those that `trainable_parameters` says.
///
/// State of each parameter, named as in torch.optim: `exp_avg`, the mean of its gradient, and
/// `exp_avg_sq`, of the gradient's square, in its shape; `step`, a 0-dim float, how many it has
/// made.
///
///     AdamW optimizer(trainable_parameters(*model), recipe.training);
///     optimizer.zero_grad();
///     loss.backward();
///     optimizer.step(learning_rate);
class AdamW : public Optimizer {
 public:
  AdamW(const std::vector<TrainableParameter>& parameters, const TrainingConfig& config);

  void step(double learning_rate) override;
  void zero_grad() override;
  std::map<std::string, torch::Tensor> state() const override;

 private:
  /// Parameters that decay alike.
  struct Group {
    double weight_decay;
    std::vector<std::string> names;
    std::vector<torch::Tensor> parameters;
    std::vector<torch::Tensor> averages;  // of the gradient
    std::vector<torch::Tensor> squares;   // of its square
    std::vector<torch::Tensor> steps;     // 0-dim float, as the kernel wants them
  };
  void step(const Group& group, double learning_rate) const;

  std::vector<Group> groups_;
  double beta1_;
  double beta2_;
};

}  // namespace attend::train
