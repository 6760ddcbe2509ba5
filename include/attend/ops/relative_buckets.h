#pragma once

#include "attend/api.h"

#include <torch/types.h>

namespace attend {

/// How offsets fall into buckets; the defaults are T5's.
///
///     RelativeBucketOptions{.bidirectional = false}  // for a causal decoder
struct RelativeBucketOptions {
  /// Half of them, or of those of a side, hold one distance each, the others ever more.
  int64_t num_buckets = 32;
  /// Everything as far away as this, or further, is in the last bucket.
  int64_t max_distance = 128;
  /// Whether keys after the query have buckets of their own, the upper half, which must be even in
  /// number; otherwise they are in the bucket of the query itself.
  bool bidirectional = true;
};

/// Throws c10::ValueError, naming the values, for options that make no buckets.
ATTEND_API void check_buckets(const RelativeBucketOptions& options);

/// The bucket of each offset of a key from its query (Raffel et al. 2020, section 2.1): exact for
/// short distances, logarithmic up to `max_distance`. `offsets` of any shape, integers, negative =
/// before, as `key_offsets` gives them; returns int64 in 0 .. num_buckets-1, of the same shape.
/// Throws c10::ValueError for options that make no buckets.
///
///     relative_buckets(key_offsets(q, k));  // (T, S)
ATTEND_API torch::Tensor relative_buckets(const torch::Tensor& offsets,
                                          const RelativeBucketOptions& options = {});

}  // namespace attend
