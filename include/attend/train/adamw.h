#pragma once

#include "attend/api.h"
#include "attend/train/optimizer.h"

#include <vector>

namespace attend::train {

/// AdamW (Loshchilov and Hutter 2019) with LibTorch's fused kernel, which reads parameter, gradient
/// and both moments in one pass; torch::optim::AdamW needs about ten passes. Parameters with
/// `ParameterRole::no_decay` have no weight decay.
///
/// Each parameter has a state of three tensors, named as in torch.optim. `exp_avg` and `exp_avg_sq`
/// are the two moments: moving averages of the gradient and of its square, in the parameter's
/// shape. `step` is the number of updates, 0-dimensional float32.
///
///     AdamW optimizer(trainable_parameters(*model), config);
///     optimizer.zero_grad();
///     loss.backward();
///     optimizer.step();
class ATTEND_API AdamW : public Optimizer {
 public:
  /// Uses `lr`, `beta1`, `beta2` and `weight_decay` of `config`.
  AdamW(const std::vector<TrainableParameter>& parameters, const TrainingConfig& config);

 protected:
  void update(double lr) override;

 private:
  void update(bool decay, double lr);

  double weight_decay_;
  double beta1_;
  double beta2_;
};

}  // namespace attend::train
