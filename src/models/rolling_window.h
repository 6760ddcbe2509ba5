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

/// Returns the window of a KV cache that overwrites old tokens; 0 = the cache does not: the window
/// has no effect within `max_seq_len`, or positions are learned up to max_seq_len.
inline int64_t rolling_window(const StackConfig& config, int64_t max_seq_len) {
  const auto window = largest_window(config);
  return window <= max_seq_len && config.positions != PositionScheme::learned ? window : 0;
}

}  // namespace attend
