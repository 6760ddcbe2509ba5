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

}  // namespace attend
