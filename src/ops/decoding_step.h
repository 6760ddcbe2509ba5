#pragma once

#include "attend/ops/activation.h"

#include <torch/types.h>

#include <optional>

namespace attend {

// Parts of a decoding step, each computed by one call without calls of LibTorch's operators, which
// would take longer than their work in a small model.

/// A linear layer: x W^T + bias.
struct StepLinear {
  const torch::Tensor& weight;  // (N, K)
  const torch::Tensor& bias;    // (N); undefined = none
};

/// Self-attention of one new token per sequence, whose earlier keys and values are cached.
struct AttentionStep {
  const torch::Tensor& x;  // (B, 1, E)
  StepLinear qkv;          // N = (H + 2 G) D
  StepLinear out;          // K = H D
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  std::optional<double> scale;  // 1/sqrt(D) if not set
  // Slots of the cached vectors (B, G, slots, D), float32, whose vectors are contiguous. The first
  // `used` slots are in use, the last of them for the new token.
  const torch::Tensor& keys;
  const torch::Tensor& values;
  int64_t used = 0;
};

/// Returns true if the functions below support these tensors: `x` (..., E) has at most
/// kMaxProductRows rows, all tensors are in float32, and no gradients are computed. `first` must
/// return `hidden` numbers for each row, and `second` get `inputs` numbers.
bool can_step(const torch::Tensor& x, const StepLinear& first, int64_t hidden,
              const StepLinear& second, int64_t inputs);

/// Writes the keys and values of the new tokens to their slots, and returns the output (B, 1, E).
/// Requires `can_step`.
torch::Tensor attention_step(const AttentionStep& step);

/// Returns the output (..., E) of a feed-forward, or an undefined tensor if `can_step` returns
/// false.
torch::Tensor feed_forward_step(const torch::Tensor& x, const StepLinear& up,
                                const StepLinear& down, Activation activation);

}  // namespace attend
