#pragma once

#include "attend/api.h"
#include "ops/row_products.h"

#include <torch/types.h>

#include <optional>
#include <variant>

namespace attend {

/// Returns `x` W^T + `bias` if `apply_linear` computes it with other kernels than `torch::linear`,
/// and std::nullopt if `apply_linear` calls `torch::linear`. Shapes: see `apply_linear`.
ATTEND_API std::optional<torch::Tensor> fast_linear(const torch::Tensor& x,
                                                    const torch::Tensor& weight,
                                                    const torch::Tensor& bias);

/// Returns true if LibTorch has oneDNN and the program has not switched it off.
ATTEND_API bool can_use_one_dnn();

/// Returns `x` W^T + `bias`, computed by oneDNN, as are its gradients. Requires `can_use_one_dnn()`
/// and, of `weight` (N, K), rows or columns that are contiguous and do not overlap. `x` (..., K)
/// must not be empty, and all dtypes be float32 or all bfloat16.
ATTEND_API torch::Tensor one_dnn_linear(const torch::Tensor& x, const torch::Tensor& weight,
                                        const torch::Tensor& bias);

/// The rows of a weight, or of its copy in another format.
using WeightRows = std::variant<FloatRows, Int8Rows, Int4Rows>;

/// Returns the rows from which `fast_linear` computes products of `rows` rows with `weight` (N, K),
/// or std::nullopt if it calls another library.
ATTEND_API std::optional<WeightRows> weight_rows(const torch::Tensor& weight, int64_t rows);

}  // namespace attend
