#pragma once

#include "attend/models/stack_config.h"

#include <algorithm>

namespace attend {

/// Returns the largest window of all layers; 0 if one of them attends to all keys.
inline int64_t largest_window(const StackConfig& config) {
  const auto& windows = config.sliding_window_pattern;
  if (windows.empty()) return config.sliding_window;
  const auto [smallest, largest] = std::minmax_element(windows.begin(), windows.end());
  return *smallest == 0 ? 0 : *largest;
}

/// Returns the window of a KV cache that overwrites old tokens. Returns 0 if the cache never
/// overwrites tokens, because no window is smaller than the context or because positions are
/// learned.
inline int64_t rolling_window(const StackConfig& config, int64_t max_seq_len) {
  const auto window = largest_window(config);
  return window <= max_seq_len && config.positions != PositionScheme::learned ? window : 0;
}

/// Returns true if `generate` can exceed `max_seq_len` without dropping tokens, because the cache
/// overwrites tokens outside of the sliding window. False with absolute positions: training has
/// none beyond max_seq_len.
inline bool rolls(const StackConfig& config, int64_t max_seq_len) {
  return rolling_window(config, max_seq_len) > 0 && config.positions != PositionScheme::sinusoidal;
}

/// Returns the number of tokens that `generate` keeps when the context is full: 3/4.
inline int64_t kept_context(int64_t max_seq_len) {
  return std::max<int64_t>(1, max_seq_len - std::max<int64_t>(1, max_seq_len / 4));
}

}  // namespace attend
