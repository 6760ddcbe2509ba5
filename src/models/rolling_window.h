#pragma once

#include "attend/models/stack_config.h"

#include <algorithm>

namespace attend {

/// Returns the largest sliding window of all layers; 0 if a layer has no window.
inline int64_t largest_window(const StackConfig& config) {
  const auto& windows = config.sliding_window_pattern;
  if (windows.empty()) return config.sliding_window;
  const auto [smallest, largest] = std::minmax_element(windows.begin(), windows.end());
  return *smallest == 0 ? 0 : *largest;
}

/// Returns the sliding window of a KV cache that overwrites old tokens. Returns 0 if the cache must
/// keep all tokens: if a layer has no window, if the window is larger than `max_seq_len`, or if
/// positions are learned, which do not exist beyond `max_seq_len`.
inline int64_t rolling_window(const StackConfig& config, int64_t max_seq_len) {
  const auto window = largest_window(config);
  return window <= max_seq_len && config.positions != PositionScheme::learned ? window : 0;
}

}  // namespace attend
