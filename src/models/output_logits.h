#pragma once

#include "attend/ops/linear.h"
#include "nn/checks.h"

#include <cmath>

namespace attend {

/// Throws c10::ValueError if logit_scale or final_logit_soft_cap of `config` is out of range.
template <typename Config>
void check_logit_options(const Config& config) {
  TORCH_CHECK_VALUE(std::isfinite(config.logit_scale) && config.logit_scale != 0.0, "logit_scale (",
                    config.logit_scale, ") must be finite and not 0");
  TORCH_CHECK_VALUE(
      std::isfinite(config.final_logit_soft_cap) && config.final_logit_soft_cap >= 0.0,
      "final_logit_soft_cap (", config.final_logit_soft_cap,
      ") must be positive and finite, or 0 for none");
}

/// Returns the logits (..., T, V) of the hidden states `x` (..., T, E). The hidden states are
/// projected with `weight` (V, E). The result is scaled, then soft-capped.
template <typename Config>
torch::Tensor output_logits(const torch::Tensor& x, const torch::Tensor& weight,
                            const Config& config) {
  auto logits = apply_linear(x, weight);  // (..., T, V)
  if (config.logit_scale != 1.0) logits = logits * config.logit_scale;
  const double cap = config.final_logit_soft_cap;
  return cap == 0.0 ? logits : torch::tanh(logits / cap) * cap;
}

}  // namespace attend
