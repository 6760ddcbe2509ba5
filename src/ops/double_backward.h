#pragma once

#include <torch/types.h>

namespace attend {

/// If a fused kernel computed `output`, makes double backward through `output` throw
/// c10::NotImplementedError. The message says what to do. `output`: a result of
/// `scaled_dot_product_attention`.
void forbid_double_backward(const torch::Tensor& output);

/// Advice at the end of error messages about double backward.
inline constexpr const char* kUseRecorder =
    "run the forward pass with an AttentionRecorder or with need_weights, since attention then "
    "consists of operators that support double backward";

}  // namespace attend
