#pragma once

#include "attend/api.h"
#include "attend/ops/activation.h"

#include <cstdint>

namespace attend {

// Kernels for the few rows of a decoding step, where a call of an operator takes longer than its
// work.

/// Attention of one query over the keys of one head, without a mask. Key s begins at
/// `keys + s * key_stride`, its value at `values + s * value_stride`.
struct OneQuery {
  const float* query = nullptr;  // (D)
  const float* keys = nullptr;
  const float* values = nullptr;
  float* output = nullptr;  // (D)
  int64_t key_stride = 0;
  int64_t value_stride = 0;
  int64_t count = 0;     // of keys, at least 1
  int64_t head_dim = 0;  // D
  float scale = 1;
};

/// Computes `output`: the sum of the values, weighted with softmax(query * key * scale).
ATTEND_API void attend_one_query(const OneQuery& call);

/// LayerNorm or RMSNorm of one row.
struct RowNorm {
  const float* x = nullptr;       // (width)
  const float* weight = nullptr;  // (width)
  const float* bias = nullptr;    // (width), or null
  float* y = nullptr;             // (width)
  int64_t width = 0;
  double eps = 0;
  bool subtracts_mean = true;  // false: RMSNorm
};

/// Computes `y`.
ATTEND_API void normalize(const RowNorm& norm);

/// The activation of a feed-forward.
struct RowActivation {
  const float* x = nullptr;
  const float* factor = nullptr;  // of a gated activation, else null
  float* y = nullptr;             // may be `x`
  int64_t count = 0;              // of elements
  Activation activation = Activation::relu;
};

/// Computes `y`: the activation of `x`, multiplied with `factor`.
ATTEND_API void activate(const RowActivation& call);

}  // namespace attend
