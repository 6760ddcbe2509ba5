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
/// positions are learned, since no embedding exists for positions beyond `max_seq_len`.
inline int64_t rolling_window(const StackConfig& config, int64_t max_seq_len) {
  const auto window = largest_window(config);
  return window <= max_seq_len && config.positions != PositionScheme::learned ? window : 0;
}

/// Returns true if `generate` need not shorten the context of a sequence that becomes longer than
/// `max_seq_len`, because the cache overwrites only tokens outside of the sliding window. Returns
/// false for absolute positions (learned or sinusoidal), since the model is not trained with
/// positions beyond `max_seq_len`.
inline bool rolls(const StackConfig& config, int64_t max_seq_len) {
  return rolling_window(config, max_seq_len) > 0 && config.positions != PositionScheme::sinusoidal;
}

/// Returns the number of tokens that `generate` keeps when the context is full: 3/4 of
/// `max_seq_len`.
inline int64_t kept_context(int64_t max_seq_len) {
  return std::max<int64_t>(1, max_seq_len - std::max<int64_t>(1, max_seq_len / 4));
}

}  // namespace attend
