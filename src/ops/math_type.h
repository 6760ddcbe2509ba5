#pragma once

#include <torch/types.h>

namespace attend {

/// Returns `x` in the dtype in which LibTorch's kernels compute with elements of `like`
/// (at::OpMathType): float32 for float16 and bfloat16, else the dtype of `like`. A trace records a
/// conversion to the dtype of `like` in the traced program, so that a model can still be cast after
/// `torch::jit::load`.
torch::Tensor to_math_type(const torch::Tensor& x, const torch::Tensor& like);

}  // namespace attend
