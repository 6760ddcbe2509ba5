#pragma once

#include "ops/block_attention.h"

namespace attend {

/// Sets `block_limits()` until the end of the scope.
///
///     const BlockLimitsGuard small_blocks({.min_queries_with_window = 1, .min_queries = 1, .rows =
///     2});
class BlockLimitsGuard {
 public:
  explicit BlockLimitsGuard(const BlockLimits& limits) { block_limits() = limits; }
  ~BlockLimitsGuard() { block_limits() = before_; }
  BlockLimitsGuard(const BlockLimitsGuard&) = delete;
  BlockLimitsGuard& operator=(const BlockLimitsGuard&) = delete;

 private:
  BlockLimits before_ = block_limits();
};

}  // namespace attend
