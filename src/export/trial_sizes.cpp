#include "export/trial_sizes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace attend {
namespace {

/// Sizes of a dimension without a maximum. Each is just above a size at which forward may branch.
constexpr std::array<int64_t, 4> kWithoutMaximum{513, 1025, 2049, 4097};
constexpr int64_t kGrowth = 4;
constexpr int64_t kFewSizes = 64;
constexpr int kRandomSizes = 8;
/// Sizes near an integer constant of the graph, as differences from the constant. Most differences
/// are positive because of slices that start at the constant and have a step n > 1: the result of
/// such a slice becomes longer only when the size has grown by n.
constexpr std::array<int64_t, 7> kAroundConstants{-1, 0, 1, 2, 3, 5, 8};

}  // namespace

TrialSizes trial_sizes(const DynamicDimension& dimension, int64_t example,
                       const std::set<int64_t>& constants, uint64_t seed) {
  const bool has_max = dimension.max != std::numeric_limits<int64_t>::max();
  const auto last = has_max ? std::min(dimension.max, std::max(kMaxTrialSize, example))
                            : std::max(kWithoutMaximum.front(), kGrowth * example);
  TrialSizes sizes;
  // The first size is only 2 times the example's size. The cost measured at the first size is used
  // to predict the costs at the next sizes.
  for (auto size = example * 2; size < last; size *= kGrowth) sizes.growing.push_back(size);
  if (last > example) sizes.growing.push_back(last);
  for (const auto size : kWithoutMaximum) {
    if (!has_max && size > last) sizes.growing.push_back(size);
  }

  std::set<int64_t> around;
  for (const auto constant : constants) {
    for (const auto offset : kAroundConstants) {
      const auto size = constant + offset;
      if (size >= dimension.min && size <= dimension.max) around.insert(size);
    }
  }
  sizes.around_constants.assign(around.begin(), around.end());

  // The logarithm of the size is uniformly distributed: a size from 10 to 99, for example, is as
  // likely as a size from 100 to 999. Otherwise, almost all sizes would be large.
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> logarithm(std::log(static_cast<double>(dimension.min)),
                                                   std::log(static_cast<double>(last) + 1));
  for (int i = 0; i < kRandomSizes; ++i) {
    const auto size = static_cast<int64_t>(std::exp(logarithm(generator)));
    sizes.others.push_back(std::clamp(size, dimension.min, last));
  }
  if (last - dimension.min < kFewSizes) {
    for (auto size = dimension.min; size <= last; ++size) sizes.others.push_back(size);
  }
  return sizes;
}

}  // namespace attend
