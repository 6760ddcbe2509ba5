#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"

#include <cstdint>
#include <set>
#include <vector>

namespace attend {

/// Sizes of a dynamic dimension at which an export is verified.
struct TrialSizes {
  /// From the example's size to the maximum, each at most 4 times the previous one. If the
  /// dimension has no maximum, ends at 512 or 4 times the example's size.
  std::vector<int64_t> growing;
  /// Around the integers of the graph, where a clamped slice may change.
  std::vector<int64_t> around_constants;
  /// Random sizes, then all sizes of a dimension that has few.
  std::vector<int64_t> others;
};

/// Integers of this magnitude or more are ignored as sizes.
inline constexpr int64_t kMaxTrialSize = int64_t{1} << 40;

/// `example`: the size in the example inputs. `constants`: integer arguments of the operators in
/// the graph. The random sizes are the same in each export.
ATTEND_API TrialSizes trial_sizes(const DynamicDimension& dimension, int64_t example,
                                  const std::set<int64_t>& constants);

}  // namespace attend
