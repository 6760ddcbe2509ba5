#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "export/resize.h"
#include "program/size.h"

#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace attend {

/// A dynamic dimension and sizes at which a program is run.
struct ScheduledDimension {
  std::string name;
  std::string symbol = {};  // in the program; empty if min == max
  int64_t min = 1;
  int64_t max = 1;
  int64_t example = 1;  // size in the example inputs
  bool has_max() const { return max != std::numeric_limits<int64_t>::max(); }
  program::Range range() const { return {min, has_max() ? std::optional(max) : std::nullopt}; }
  /// Increasing sizes above the example's size, each at most 4 times the previous size. The last
  /// size is the maximum. If the dimension has no maximum, the last size is 4097 or 4 times the
  /// example's size, whichever is larger, and there is a size between each two of 512, 1024, 2048
  /// and 4096 that are not below the example's size.
  std::vector<int64_t> growing = {};
  /// Sizes near the integer constants of the graph. For example, the result of x.slice(1, 0, 512)
  /// has a constant size only if x.size(1) is 512 or more, so sizes near 512 are used.
  std::vector<int64_t> around_constants = {};
  /// The 17 smallest sizes, without 0 and 1 unless there is at most one other size. All of them are
  /// needed to see at which size a number changes: n / 4 and (n + 2) / 4, for example, may change
  /// between the same two of the sizes above.
  std::vector<int64_t> consecutive = {};
  /// Random sizes, followed by all sizes of the dimension if the dimension has at most 64 sizes.
  std::vector<int64_t> others = {};
};

/// Returns `sizes` with another size of one dimension.
ATTEND_API SizesByName with_size(SizesByName sizes, const ScheduledDimension& dimension,
                                 int64_t size);

/// If a dimension has a maximum larger than kMaxScheduledSize, `ScheduledDimension::growing` ends
/// at kMaxScheduledSize, not at the maximum. Integer constants with an absolute value of
/// kMaxScheduledSize or more are not used as sizes.
inline constexpr int64_t kMaxScheduledSize = int64_t{1} << 40;

/// Returns the dynamic dimensions, each name once. `constants`: integer arguments of the operators
/// in the graph. `seed`: seed of the random sizes.
ATTEND_API std::vector<ScheduledDimension> scheduled_dimensions(
    const std::vector<torch::Tensor>& example, const std::vector<DynamicDimension>& dynamic,
    const std::set<int64_t>& constants, uint64_t seed);

/// The sizes at which a program is run to find the expressions of the sizes of its tensors. The
/// "smallest" size of a dimension is the minimum or, if the range contains it, 2: the stride of a
/// dimension of size 1 is arbitrary.
struct FittingSizes {
  /// The example's sizes, then all smallest sizes. Each later element differs from the smallest
  /// sizes in at most three dimensions. Each dimension alone has up to ten sizes, which are at most
  /// 55 larger than the smallest. Two and three dimensions together have a few of these sizes.
  std::vector<SizesByName> near;
  /// One dimension has a size from 2 to 2^20 of its three lists. The other dimensions have, once,
  /// their smallest sizes and, once, slightly larger sizes. Then all dimensions have their largest
  /// sizes. If the sizes in all ranges have at most 64 combinations, then all combinations without
  /// sizes 0 and 1.
  std::vector<SizesByName> far;
  /// Each dimension alone has the sizes 0 and 1 that its range contains, then all of these
  /// dimensions together. If there are at most 64 combinations, then all combinations with size 0
  /// or 1. These sizes are special: squeeze removes dimensions of size 1, more tensors are
  /// contiguous, and strides are computed with 1 instead of a size of 0.
  std::vector<SizesByName> below_2;
};
ATTEND_API FittingSizes fitting_sizes(const std::vector<ScheduledDimension>& dimensions);

/// Returns the sizes at which each export is verified first: the example's sizes, the minimum of
/// all dimensions, the minimum of one dimension at a time, and three elements in which each
/// dimension is slightly larger than in the example, or slightly smaller if the maximum is near.
ATTEND_API std::vector<SizesByName> sizes_near_example(
    const std::vector<ScheduledDimension>& dimensions);

}  // namespace attend
