#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"

#include <cstdint>
#include <set>
#include <vector>

namespace attend {

/// Sizes of a dynamic dimension at which an export is verified.
struct TrialSizes {
  /// Increasing sizes above the example's size, each at most 4 times the previous size. The last
  /// size is the maximum. If the dimension has no maximum, the last size is 4097 or 4 times the
  /// example's size, whichever is larger, and there is a size between each two of 512, 1024, 2048
  /// and 4096 that are not below the example's size.
  std::vector<int64_t> growing;
  /// Sizes near the integer constants of the graph. For example, the result of x.slice(1, 0, 512)
  /// has a constant size only if x.size(1) is 512 or more, so sizes near 512 are verified.
  std::vector<int64_t> around_constants;
  /// Random sizes, followed by all sizes of the dimension if the dimension has at most 64 sizes.
  std::vector<int64_t> others;
};

/// If a dimension has a maximum larger than kMaxTrialSize, `TrialSizes::growing` ends at
/// kMaxTrialSize, not at the maximum. Integer constants with an absolute value of kMaxTrialSize or
/// more are not used as sizes.
inline constexpr int64_t kMaxTrialSize = int64_t{1} << 40;

/// Returns the sizes of `dimension` at which an export is verified. `example`: the size in the
/// example inputs. `constants`: integer arguments of the operators in the graph. `seed`: seed of
/// the random sizes.
ATTEND_API TrialSizes trial_sizes(const DynamicDimension& dimension, int64_t example,
                                  const std::set<int64_t>& constants, uint64_t seed);

}  // namespace attend
