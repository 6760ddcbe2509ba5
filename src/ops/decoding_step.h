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

/// LayerNorm or RMSNorm.
struct StepNorm {
  const torch::Tensor& weight;  // (E)
  const torch::Tensor& bias;    // (E); undefined = none
  double eps = 0;
  bool subtracts_mean = true;  // false: RMSNorm
};

/// Self-attention of one new token per sequence, whose earlier keys and values are cached.
struct AttentionStep {
  const torch::Tensor& x;          // (B, 1, E)
  const StepNorm* norm = nullptr;  // null: no norm, and x is not added
  StepLinear qkv;                  // N = (H + 2 G) D
  StepLinear out;                  // K = H D
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
/// return `hidden` numbers for each row, and `second` get `inputs` numbers. `norm` may be null.
bool can_step(const torch::Tensor& x, const StepNorm* norm, const StepLinear& first, int64_t hidden,
              const StepLinear& second, int64_t inputs);

/// Writes the keys and values of the new tokens to their slots, and returns the output (B, 1, E).
/// With a norm, this is the residual branch x + attention(norm(x)). Requires `can_step`.
torch::Tensor attention_step(const AttentionStep& step);

/// Returns the output (..., E) of a feed-forward, or an undefined tensor if `can_step` returns
/// false. With a norm, this is the residual branch x + feed_forward(norm(x)).
torch::Tensor feed_forward_step(const torch::Tensor& x, const StepNorm* norm, const StepLinear& up,
                                const StepLinear& down, Activation activation);

}  // namespace attend
