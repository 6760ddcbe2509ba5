#include "export/schedule.h"

#include <fmt/format.h>

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
/// `near_sizes` adds each of these numbers to its first size. Sizes that are close to each other
/// show whether an output size is a floor division with a small divisor. Sizes that are far from
/// each other show floor divisions with large divisors.
constexpr std::array<int64_t, 10> kOffsets{0, 1, 2, 3, 5, 8, 13, 21, 34, 55};

using Dimensions = std::vector<ScheduledDimension>;
using Sizes = std::vector<int64_t>;
using AllSizes = std::vector<SizesByName>;

/// Calls `size_of` for each dimension.
template <typename Function>
SizesByName sizes_by_name(const Dimensions& dimensions, const Function& size_of) {
  SizesByName sizes;
  for (const auto& dimension : dimensions) sizes[dimension.name] = size_of(dimension);
  return sizes;
}

/// Returns sizes close to the minimum. Sizes 0 and 1 are among them only if there are too few other
/// sizes.
Sizes near_sizes(const ScheduledDimension& dimension) {
  const auto from = [&](int64_t first) {
    Sizes sizes;
    for (const auto offset : kOffsets) {
      if (offset <= dimension.max - first) sizes.push_back(first + offset);
    }
    return sizes;
  };
  const auto sizes = from(std::max<int64_t>(dimension.min, 2));
  return sizes.size() < 2 ? from(dimension.min) : sizes;
}

/// Sets the lists of sizes.
void set_sizes(ScheduledDimension& dimension, const std::set<int64_t>& constants, uint64_t seed) {
  const auto min = dimension.min, max = dimension.max, example = dimension.example;
  const auto last = dimension.has_max() ? std::min(max, std::max(kMaxScheduledSize, example))
                                        : std::max(kWithoutMaximum.front(), kGrowth * example);
  // The first size is only 2 times the example's size, or 2 for an empty example. The cost measured
  // at the first size is used to predict the costs at the next sizes.
  const auto first = 2 * std::max<int64_t>(example, 1);
  for (auto size = first; size < last; size *= kGrowth) dimension.growing.push_back(size);
  if (last > example) dimension.growing.push_back(last);
  for (const auto size : kWithoutMaximum) {
    if (!dimension.has_max() && size > last) dimension.growing.push_back(size);
  }

  std::set<int64_t> around;
  for (const auto constant : constants) {
    for (const auto offset : kAroundConstants) around.insert(constant + offset);
  }
  dimension.around_constants.assign(around.lower_bound(min), around.upper_bound(max));

  constexpr int64_t kConsecutive = 16;
  const auto smallest = near_sizes(dimension).front();
  for (auto size = smallest; size <= std::min(max, smallest + kConsecutive); ++size) {
    dimension.consecutive.push_back(size);
  }

  // The logarithm of the size is uniformly distributed: a size from 10 to 99, for example, is as
  // likely as a size from 100 to 999. Otherwise, almost all sizes would be large.
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> logarithm(
      std::log(std::max(static_cast<double>(min), 1.0)), std::log(static_cast<double>(last) + 1));
  for (int i = 0; i < kRandomSizes; ++i) {
    const auto size = static_cast<int64_t>(std::exp(logarithm(generator)));
    dimension.others.push_back(std::clamp(size, min, last));
  }
  if (last - min < kFewSizes) {
    for (auto size = min; size <= last; ++size) dimension.others.push_back(size);
  }
}

/// Returns `growing`, then `around_constants` and `others` shuffled together. They are shuffled
/// because runs are omitted, mostly the last ones, if all runs together are too expensive. Omits
/// sizes above 2^20, so that products of three sizes do not overflow. Also omits the sizes 0 and 1
/// and, if there are more than 100 sizes, some of `others`.
Sizes far_sizes(const ScheduledDimension& dimension) {
  constexpr int64_t kLargest = int64_t{1} << 20;
  constexpr std::size_t kMaxSizes = 100;
  Sizes sizes;
  const auto add = [&](const Sizes& some, std::size_t max) {
    for (const auto size : some) {
      const bool is_new = std::find(sizes.begin(), sizes.end(), size) == sizes.end();
      if (size > 1 && size <= kLargest && is_new && sizes.size() < max) sizes.push_back(size);
    }
  };
  add(dimension.growing, std::numeric_limits<std::size_t>::max());
  const auto num_growing = static_cast<std::ptrdiff_t>(sizes.size());
  add(dimension.around_constants, std::numeric_limits<std::size_t>::max());
  add(dimension.others, kMaxSizes);
  std::shuffle(sizes.begin() + num_growing, sizes.end(), std::mt19937_64());
  return sizes;
}

/// Returns all combinations of the sizes in the ranges, or none if there are more than 64.
AllSizes all_combinations(const Dimensions& dimensions) {
  constexpr std::size_t kMaxCombinations = 64;
  if (dimensions.empty()) return {};
  AllSizes all{{}};
  for (const auto& dimension : dimensions) {
    if (dimension.max - dimension.min >= static_cast<int64_t>(kMaxCombinations / all.size()))
      return {};
    AllSizes longer;
    for (const auto& sizes : all) {
      for (auto size = dimension.min; size <= dimension.max; ++size) {
        longer.push_back(with_size(sizes, dimension, size));
      }
    }
    all = std::move(longer);
  }
  return all;
}

}  // namespace

SizesByName with_size(SizesByName sizes, const ScheduledDimension& dimension, int64_t size) {
  sizes[dimension.name] = size;
  return sizes;
}

Dimensions scheduled_dimensions(const std::vector<torch::Tensor>& example,
                                const std::vector<DynamicDimension>& dynamic,
                                const std::set<int64_t>& constants, uint64_t seed) {
  Dimensions all;
  int num_symbols = 0;
  for (const auto& [input, index, name, min, max] : distinct(dynamic)) {
    all.push_back({.name = name, .min = min, .max = max, .example = example.at(input).size(index)});
    if (min < max) all.back().symbol = fmt::format("s{}", num_symbols++);
    set_sizes(all.back(), constants, seed);
  }
  return all;
}

FittingSizes fitting_sizes(const Dimensions& dimensions) {
  std::vector<Sizes> close;
  for (const auto& dimension : dimensions) close.push_back(near_sizes(dimension));
  // Returns `sizes` with the size `index` of the close sizes of dimension i.
  const auto with_close = [&](const SizesByName& sizes, std::size_t i, std::size_t index) {
    return with_size(sizes, dimensions[i], close[i][std::min(index, close[i].size() - 1)]);
  };
  SizesByName smallest, second;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    smallest = with_close(smallest, i, 0);
    second = with_close(second, i, 1);
  }
  FittingSizes fitting;
  fitting.near = {sizes_by_name(dimensions, [](const auto& d) { return d.example; }), smallest};
  auto largest = smallest;
  std::array<SizesByName, 2> all_below{smallest, smallest};  // all sizes 0, and 1
  for (std::size_t a = 0; a < dimensions.size(); ++a) {
    for (std::size_t index = 0; index < close[a].size(); ++index) {
      fitting.near.push_back(with_close(smallest, a, index));
    }
    for (std::size_t b = 0; b < a; ++b) {
      for (const auto& [index_a, index_b] : {std::pair{1, 1}, {1, 3}, {3, 1}, {3, 4}}) {
        const auto two = with_close(with_close(smallest, a, index_a), b, index_b);
        fitting.near.push_back(two);
        for (std::size_t c = 0; c < b && index_a == 1; ++c) {
          fitting.near.push_back(with_close(two, c, 2));
        }
      }
    }
    for (const auto size : far_sizes(dimensions[a])) {
      fitting.far.push_back(with_size(smallest, dimensions[a], size));
      if (dimensions.size() > 1) fitting.far.push_back(with_size(second, dimensions[a], size));
      largest[dimensions[a].name] = std::max(largest[dimensions[a].name], size);
    }
    for (auto size = dimensions[a].min; size <= 1; ++size) {
      fitting.below_2.push_back(with_size(smallest, dimensions[a], size));
      auto& all = all_below.at(static_cast<std::size_t>(size));
      all = with_size(all, dimensions[a], size);
    }
  }
  if (dimensions.size() > 1) {
    fitting.far.push_back(largest);
    for (const auto& all : all_below) {
      if (all != smallest) fitting.below_2.push_back(all);
    }
  }
  for (const auto& sizes : all_combinations(dimensions)) {
    const bool is_below =
        std::any_of(sizes.begin(), sizes.end(), [](const auto& size) { return size.second < 2; });
    (is_below ? fitting.below_2 : fitting.far).push_back(sizes);
  }
  return fitting;
}

AllSizes sizes_near_example(const Dimensions& dimensions) {
  const auto example = sizes_by_name(dimensions, [](const auto& d) { return d.example; });
  AllSizes all{example};
  if (dimensions.empty()) return all;
  all.push_back(sizes_by_name(dimensions, [](const auto& d) { return d.min; }));
  for (const auto& dimension : dimensions) {
    if (dimension.min < dimension.example)
      all.push_back(with_size(example, dimension, dimension.min));
  }
  // Dimensions grow by different numbers so that swapped dimensions are detected.
  for (int64_t first = 0; first < 3; ++first) {
    auto increment = first;
    all.push_back(sizes_by_name(dimensions, [&](const auto& d) {
      const auto added = 1 + increment++ % 3;
      return added <= d.max - d.example ? d.example + added : std::max(d.min, d.example - added);
    }));
  }
  return all;
}

}  // namespace attend
