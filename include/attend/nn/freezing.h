#pragma once

#include "attend/module_ref.h"

#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

namespace attend {

/// Sets requires_grad to false for all parameters of `module`, so that they are not trained. Does
/// not change the training mode.
///
///     freeze(model);
///     unfreeze(model->head);  // trains only the head
inline void freeze(ModuleRef module) {
  for (auto& parameter : module->parameters()) parameter.requires_grad_(false);
}

/// Sets requires_grad to true for all parameters of `module`, except those of integer dtypes.
///
///     unfreeze(model);
inline void unfreeze(ModuleRef module) {
  for (auto& parameter : module->parameters()) {
    parameter.requires_grad_(torch::autograd::isDifferentiableType(parameter.scalar_type()));
  }
}

}  // namespace attend
