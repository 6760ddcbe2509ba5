#pragma once

#include "attend/ops/linear.h"
#include "support/rounding.h"

#include <torch/nn/module.h>
#include <torch/types.h>

namespace attend {

/// Replaces the weights of `exact`, a clone of `module` in float64, by those of the copies in int8
/// or int4 that `prepare_weight` has made. Products of few rows read these copies.
inline void take_copies(torch::nn::Module& exact, const torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  const auto targets = exact.named_parameters();
  for (const auto& each : module.named_parameters()) {
    if (each.value().dim() != 2) continue;
    std::vector<torch::Tensor> columns;
    for (const auto& rows : torch::eye(each.value().size(1)).split(8))
      columns.push_back(apply_linear(rows, each.value()));
    targets[each.key()].copy_(torch::cat(columns).t());
  }
}

/// How integers round the inputs of a product: by at most 1/65534 of the largest input.
inline Rounding rounding_of_integers(int64_t terms) {
  return {.dtype = torch::kHalf, .terms = terms};
}

}  // namespace attend
