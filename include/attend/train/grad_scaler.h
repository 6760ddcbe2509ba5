#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <map>
#include <string>
#include <vector>

namespace attend::train {

/// Dynamic loss scaling for float16 (Micikevicius et al. 2018), with the arithmetic and the
/// defaults of torch.amp.GradScaler: the loss is multiplied by a scale, so that small gradients do
/// not become 0 in float16, and the gradients are divided by it. The scale begins with 65536. It is
/// halved at each step with non-finite gradients, and doubled after 2000 steps in a row without.
/// `Trainer` uses it if the precision is fp16.
///
///     GradScaler scaler;
///     scaler.scale(loss).backward();
///     scaler.unscale(gradients);
///     const auto norm = torch::stack(at::_foreach_norm(gradients)).norm();
///     const bool is_finite = norm.isfinite().item<bool>();
///     if (is_finite) optimizer->step();
///     scaler.update(is_finite);
class ATTEND_API GradScaler {
 public:
  /// Returns the 0-dim `loss` times the scale, in float32 or float64.
  torch::Tensor scale(const torch::Tensor& loss) const;
  /// Divides the gradients by the scale, in place.
  void unscale(const std::vector<torch::Tensor>& gradients) const;
  /// Adjusts the scale after a step. `finite`: all gradients of the step are finite.
  void update(bool finite);
  /// The scale of the next step.
  double factor() const { return factor_; }

  /// Returns the state, by name.
  std::map<std::string, torch::Tensor> state() const;
  /// Restores the state returned by `state()`. Throws InputError for an invalid state.
  void load_state(const std::map<std::string, torch::Tensor>& state);

 private:
  float factor_ = 65536.0F;
  int64_t growth_tracker_ = 0;  // steps with finite gradients since the last change of the scale
};

}  // namespace attend::train
