#pragma once

#include "attend/nn/norms.h"
#include "ops/decoding_step.h"

#include <limits>
#include <optional>
#include <typeinfo>

namespace attend {

/// Returns the norm that a decoding step computes, if `module` is a LayerNorm or an RMSNorm. It
/// refers to the tensors of the module. `module` may be null.
inline std::optional<StepNorm> step_norm(const torch::nn::Module* module) {
  if (module == nullptr) return {};
  if (typeid(*module) == typeid(LayerNormImpl)) {
    const auto& norm = static_cast<const LayerNormImpl&>(*module);
    return StepNorm{norm.weight, norm.bias, norm.options.eps(), /*subtracts_mean=*/true};
  }
  if (typeid(*module) == typeid(RMSNormImpl)) {
    static const torch::Tensor no_bias;
    const auto& norm = static_cast<const RMSNormImpl&>(*module);
    const auto eps = norm.options.eps().value_or(std::numeric_limits<float>::epsilon());
    return StepNorm{norm.weight, no_bias, eps, /*subtracts_mean=*/false};
  }
  return {};
}

}  // namespace attend
