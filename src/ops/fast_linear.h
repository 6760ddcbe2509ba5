#pragma once

#include "attend/api.h"

#include <torch/types.h>

#include <optional>

namespace attend {

/// Returns `x` W^T + `bias` if `apply_linear` computes it with other kernels than `torch::linear`,
/// and std::nullopt if `apply_linear` calls `torch::linear`. Shapes: see `apply_linear`.
ATTEND_API std::optional<torch::Tensor> fast_linear(const torch::Tensor& x,
                                                    const torch::Tensor& weight,
                                                    const torch::Tensor& bias);

}  // namespace attend
