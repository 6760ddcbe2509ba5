#pragma once

#include "attend/api.h"

#include <torch/types.h>

namespace attend {

/// Options for `relative_buckets`. The defaults are the values of T5.
///
///     RelativeBucketOptions{.bidirectional = false}  // for a causal decoder
struct RelativeBucketOptions {
  /// Number of buckets. If `bidirectional` is set, each of the two directions has half of them.
  /// Otherwise, there is one direction, which has all buckets. In each direction, the first half of
  /// the buckets contain one distance each. The second half contain ranges of distances, which grow
  /// exponentially.
  int64_t num_buckets = 32;
  /// Keys at this distance or farther are in the last bucket of their direction.
  int64_t max_distance = 128;
  /// If true, the upper half of the buckets is for keys after the query, and `num_buckets` must be
  /// even. If false, all keys after the query are in bucket 0, like the key at distance 0.
  bool bidirectional = true;

  bool operator==(const RelativeBucketOptions&) const = default;
};

/// Throws c10::ValueError if `num_buckets` or `max_distance` is too small, or if `num_buckets` is
/// odd and `bidirectional` is set.
ATTEND_API void check_buckets(const RelativeBucketOptions& options);

/// Returns the bucket of each offset (key position - query position), as in T5 (Raffel et al. 2020,
/// section 2.1): one bucket per distance for short distances, logarithmic ranges up to
/// `max_distance`. `offsets` of any shape, integers, as returned by `key_offsets`; returns a tensor
/// of the same shape, int64, in [0, num_buckets). Throws c10::ValueError as `check_buckets` does.
///
///     relative_buckets(key_offsets(q, k));  // (T, S)
ATTEND_API torch::Tensor relative_buckets(const torch::Tensor& offsets,
                                          const RelativeBucketOptions& options = {});

}  // namespace attend
