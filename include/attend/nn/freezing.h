#pragma once

#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/types.h>

namespace attend {

/// Stops the parameters of `module` from learning: they get no gradients, and optimizers made from
/// now on pass them over. Does not touch the training mode.
///
///     freeze(*model);
///     unfreeze(*model->head);  // only the head learns
inline void freeze(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) parameter.requires_grad_(false);
}

/// Lets all parameters of `module` learn, but for those of integers, which cannot.
///
///     unfreeze(*model);
inline void unfreeze(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) {
    parameter.requires_grad_(torch::autograd::isDifferentiableType(parameter.scalar_type()));
  }
}

}  // namespace attend
