#pragma once

#include "attend/api.h"
#include "ops/bfloat16_bits.h"

#include <cstdint>

namespace attend {

// Kernels for one row of logits. They compute in float32.

/// The log-probability of a logit is logit - largest - log_sum.
struct LogNormalizer {
  float largest = 0;  // NaN if a logit is NaN
  float log_sum = 0;  // log(sum of exp(logit - largest))
};

/// Returns the normalizer of a row of `count` logits, at least 1.
ATTEND_API LogNormalizer normalizer_of(const float* logits, int64_t count);
ATTEND_API LogNormalizer normalizer_of(const BFloat16Bits* logits, int64_t count);

/// The gradient of a cross-entropy with respect to a row of logits: factor * (p - 1) at `target`,
/// and factor * p elsewhere, where p are the probabilities.
template <typename T>
struct LogitsGradient {
  const T* logits = nullptr;
  T* gradient = nullptr;
  int64_t count = 0;
  int64_t target = 0;
  LogNormalizer normalizer;
  float factor = 1;
};

/// Computes `gradient`.
ATTEND_API void compute(const LogitsGradient<float>& row);
ATTEND_API void compute(const LogitsGradient<BFloat16Bits>& row);

}  // namespace attend
