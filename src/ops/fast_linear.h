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

/// Returns true if `fast_linear` computes products of `rows` rows from the rows of `weight` (N, K)
/// itself, and not from a copy in another format.
ATTEND_API bool reads_rows(const torch::Tensor& weight, int64_t rows);

}  // namespace attend
