#pragma once

#include "attend/api.h"
#include "attend/ops/activation.h"
#include "ops/fast_linear.h"

#include <torch/types.h>

#include <memory>
#include <optional>
#include <vector>

namespace attend {

// Parts of a decoding step, each computed by one call without calls of LibTorch's operators, which
// would take longer than their work in a small model. The parts refer to tensors of modules.

/// A linear layer: x W^T + bias.
struct StepLinear {
  const torch::Tensor& weight;          // (N, K)
  const torch::Tensor& bias;            // (N); undefined = none
  std::optional<WeightRows> rows = {};  // of the weight or its copy; set by `prepare`
};

/// LayerNorm or RMSNorm.
struct StepNorm {
  const torch::Tensor& weight;  // (E)
  const torch::Tensor& bias;    // (E); undefined = none
  double eps = 0;
  bool subtracts_mean = true;  // false: RMSNorm
};

/// Rotary position embedding of one token per sequence.
struct StepRotation {
  std::vector<float> cos = {};  // (B, R/2)
  std::vector<float> sin = {};  // (B, R/2)
  int64_t pairs = 0;            // R/2
};

/// Self-attention of one new token per sequence, whose earlier keys and values are cached. Queries
/// and keys are normalized first, and then rotated.
struct AttentionStep {
  std::optional<StepNorm> norm;  // if set, computes x + attention(norm(x))
  StepLinear qkv;                // N = (H + 2 G) D
  StepLinear out;                // K = H D
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  std::optional<double> scale;                             // 1/sqrt(D) if not set
  std::optional<StepNorm> query_norm;                      // E = D
  std::optional<StepNorm> key_norm;                        // E = D
  std::shared_ptr<const StepRotation> rotation = nullptr;  // null = none
  bool interleaved = false;                                // as in RotaryOptions
  int64_t sliding_window = 0;                              // in tokens; 0 = none
};

/// The cached vectors of a layer, in float32. The vectors are contiguous.
struct StepCache {
  const torch::Tensor& keys;    // (B, G, slots, D)
  const torch::Tensor& values;  // (B, G, slots, D)
  // (B): the first slots of a sequence are in use, the last of them for the new token.
  const std::vector<int64_t>& lengths;
};

/// A feed-forward.
struct FeedForwardStep {
  std::optional<StepNorm> norm;  // if set, computes x + feed_forward(norm(x))
  StepLinear up;
  StepLinear down;
  Activation activation = Activation::relu;
};

/// Return true if the functions below support these tensors, and set `StepLinear::rows`: `x`
/// (..., E) has at most kMaxProductRows rows, all tensors are in float32, no copy of a weight is
/// one of oneDNN, and no gradients are computed.
ATTEND_API bool prepare(const torch::Tensor& x, AttentionStep& step);
ATTEND_API bool prepare(const torch::Tensor& x, FeedForwardStep& step);

/// Writes the keys and values of the new tokens to their slots, and returns the output (B, 1, E).
/// Requires `prepare`.
ATTEND_API torch::Tensor attention_step(const torch::Tensor& x, const AttentionStep& step,
                                        const StepCache& cache);

/// Returns the output (..., E) of a feed-forward. Requires `prepare`.
ATTEND_API torch::Tensor feed_forward_step(const torch::Tensor& x, const FeedForwardStep& step);

/// Returns the rotation of the last tokens of sequences with these lengths, (B). `frequencies`: R/2
/// numbers; see `rotary_tables`.
ATTEND_API StepRotation step_rotation(const std::vector<int64_t>& lengths,
                                      const std::vector<double>& frequencies,
                                      double attention_scaling);

/// Returns the norm of the rows of `x` (..., E), or an undefined tensor if LibTorch's operators are
/// to compute it: unless `x` has at most kMaxProductRows rows in float32, and no gradients are
/// computed.
ATTEND_API torch::Tensor norm_of_few_rows(const torch::Tensor& x, const StepNorm& norm);

/// Returns the attention output (B, H, 1, D) of one query per sequence, without masks. Returns an
/// undefined tensor if the kernel does not support the tensors, or if gradients are computed.
/// `query` (B, H, 1, D), `key` and `value` (B, G, S, D).
ATTEND_API torch::Tensor one_query_attention(const torch::Tensor& query, const torch::Tensor& key,
                                             const torch::Tensor& value,
                                             std::optional<double> scale);

}  // namespace attend
