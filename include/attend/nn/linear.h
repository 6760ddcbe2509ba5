#pragma once

#include "attend/api.h"
#include "attend/ops/activation.h"
#include "attend/ops/linear.h"

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace attend {

/// Returns `apply_linear(x, layer->weight, layer->bias)`, plus the products of the low-rank
/// adapters of `layer`, if it has any; see `add_lora`. `x` (..., K); the result is (..., N).
///
///     auto y = apply_linear(x, feed_forward->down);  // (B, T, K) -> (B, T, N)
ATTEND_API torch::Tensor apply_linear(const torch::Tensor& x, const torch::nn::Linear& layer);

/// Returns `activate(apply_linear(x, layer), activation)`. If oneDNN computes the product without
/// gradients, it applies `gelu`, `gelu_tanh` or `silu` in the same call.
///
///     auto h = apply_linear(x, feed_forward->up, Activation::gelu);  // (B, T, K) -> (B, T, N)
ATTEND_API torch::Tensor apply_linear(const torch::Tensor& x, const torch::nn::Linear& layer,
                                      Activation activation);

}  // namespace attend
