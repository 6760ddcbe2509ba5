#pragma once

#include "ops/bfloat16_bits.h"

#include <cstdint>

namespace attend {

/// The rows of a head: row t begins at `data + t * stride`.
template <typename T>
struct HeadRows {
  T* data = nullptr;
  int64_t stride = 0;
};

/// Sizes and options of all heads.
struct HeadShape {
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head_dim = 0;  // a multiple of kHeadDimUnit
  double scale = 1.0;
  bool causal = false;  // query t has the keys 0 to t
};

constexpr int64_t kHeadDimUnit = 16;

/// The tensors of a head. T is float or BFloat16Bits.
template <typename T>
struct Head {
  HeadRows<const T> query;
  HeadRows<const T> key;
  HeadRows<const T> value;
  HeadRows<T> output;
  float* logsumexp = nullptr;  // of the scores of each query
};

/// As `Head`, for the backward pass.
template <typename T>
struct HeadGradient {
  HeadRows<const T> query;
  HeadRows<const T> key;
  HeadRows<const T> value;
  HeadRows<const T> output_gradient;
  const float* logsumexp = nullptr;
  HeadRows<T> query_gradient;
  HeadRows<T> key_gradient;
  HeadRows<T> value_gradient;
};

/// Returns the floats of `scratch` that the functions below need.
int64_t forward_scratch_size(const HeadShape& shape);
int64_t backward_scratch_size(const HeadShape& shape);

/// Computes the output and `logsumexp` of a head. Elements are computed in float32. `scratch`:
/// zeros, or as an earlier call with the same shape left it.
void attend_head(const HeadShape& shape, const Head<float>& head, float* scratch);
void attend_head(const HeadShape& shape, const Head<BFloat16Bits>& head, float* scratch);

/// Computes the gradients of a head.
void attend_head_backward(const HeadShape& shape, const HeadGradient<float>& head, float* scratch);
void attend_head_backward(const HeadShape& shape, const HeadGradient<BFloat16Bits>& head,
                          float* scratch);

}  // namespace attend
