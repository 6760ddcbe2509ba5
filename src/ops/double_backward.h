#pragma once

#include <torch/types.h>

namespace attend {

/// Makes double backward through `output` throw c10::NotImplementedError if `output`, a result of
/// `scaled_dot_product_attention`, was computed by a fused kernel. The message says what to do.
void forbid_double_backward(const torch::Tensor& output);

/// Advice at the end of error messages about double backward.
inline constexpr const char* kUseRecorder =
    "run the forward pass with an AttentionRecorder or with need_weights, since attention then "
    "consists of operators that support double backward";

}  // namespace attend
