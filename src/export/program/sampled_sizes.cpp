#include "export/program/sampled_sizes.h"

#include "export/resize.h"
#include "export/trial_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <random>
#include <set>
#include <utility>

namespace attend::program {
namespace {

/// `sizes_to_try` adds each of these numbers to its first size. Sizes that are close to each other
/// show whether an output size is a floor division with a small divisor. Sizes that are far from
/// each other show floor divisions with large divisors.
constexpr std::array<int64_t, 10> kOffsets{0, 1, 2, 3, 5, 8, 13, 21, 34, 55};

std::vector<int64_t> sizes_to_try(const Range& range) {
  std::vector<int64_t> sizes;
  const auto add = [&](int64_t first) {
    for (const auto offset : kOffsets) {
      const auto size = first + offset;
      if (!range.max || size <= *range.max) sizes.push_back(size);
    }
  };
  const auto min = range.min.value_or(1);
  // Size 1 is used only if there are too few other sizes, since the stride of a dimension of size 1
  // is arbitrary.
  add(std::max<int64_t>(min, 2));
  if (sizes.size() < 2) {
    sizes.clear();
    add(min);
  }
  return sizes;
}

/// Seed of the random sizes. The verification uses other random sizes.
constexpr uint64_t kSeed = 2;

/// Returns the sizes that `trial_sizes` returns: first `TrialSizes::growing`, then
/// `TrialSizes::around_constants` and `TrialSizes::others`, shuffled together. They are shuffled
/// because `Observations` omits runs, mostly the last ones, if all runs together are too expensive.
/// Omits sizes above 2^20, so that products of three sizes do not overflow. Also omits size 1 and,
/// if there are more than 100 sizes, some sizes of `TrialSizes::others`.
std::vector<int64_t> far_sizes(const DynamicDimension& dimension, int64_t example,
                               const std::set<int64_t>& integers) {
  constexpr int64_t kLargest = int64_t{1} << 20;
  constexpr std::size_t kMaxSizes = 100;
  const auto [growing, around_constants, others] = trial_sizes(dimension, example, integers, kSeed);
  std::vector<int64_t> sizes;
  const auto add = [&](const std::vector<int64_t>& some, std::size_t max) {
    for (const auto size : some) {
      // Size 1 is left to `runs_with_ones`: the stride of a dimension of size 1 is arbitrary.
      const bool is_new = std::find(sizes.begin(), sizes.end(), size) == sizes.end();
      if (size > 1 && size <= kLargest && is_new && sizes.size() < max) sizes.push_back(size);
    }
  };
  add(growing, std::numeric_limits<std::size_t>::max());
  const auto num_growing = static_cast<std::ptrdiff_t>(sizes.size());
  add(around_constants, std::numeric_limits<std::size_t>::max());
  add(others, kMaxSizes);
  std::shuffle(sizes.begin() + num_growing, sizes.end(), std::mt19937_64(kSeed));
  return sizes;
}

/// Returns all combinations of the sizes in the ranges, or no runs if there are more than kMaxRuns
/// combinations.
std::vector<Run> all_combinations(const std::vector<SampledDimension>& dimensions) {
  constexpr std::size_t kMaxRuns = 64;
  if (dimensions.empty()) return {};
  std::vector<Run> runs{{}};
  for (const auto& dimension : dimensions) {
    const auto min = dimension.range.min.value_or(1);
    const auto max = dimension.range.max.value_or(std::numeric_limits<int64_t>::max());
    if (max - min >= static_cast<int64_t>(kMaxRuns / runs.size())) return {};
    std::vector<Run> longer;
    for (const auto& run : runs) {
      for (auto size = min; size <= max; ++size) {
        longer.push_back(run);
        longer.back().push_back(size);
      }
    }
    runs = std::move(longer);
  }
  return runs;
}

/// Appends to `all` the runs in which at least one dimension has size 1 (`with_ones` true), or the
/// runs in which no dimension has size 1 (`with_ones` false).
void append(std::vector<Run>& all, const std::vector<Run>& runs, bool with_ones) {
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(all), [&](const Run& run) {
    return (std::count(run.begin(), run.end(), 1) > 0) == with_ones;
  });
}

}  // namespace

std::vector<SampledDimension> sampled_dimensions(const std::vector<torch::Tensor>& example,
                                                 const std::vector<DynamicDimension>& dynamic,
                                                 const std::set<int64_t>& integers) {
  std::vector<SampledDimension> all;
  for (const auto& dimension : distinct(dynamic)) {
    if (dimension.min == dimension.max) continue;  // not dynamic
    Range range{.min = dimension.min, .max = {}};
    if (dimension.max != std::numeric_limits<int64_t>::max()) {
      range.max = dimension.max;
    }
    const auto size = example.at(dimension.input).size(dimension.dimension);
    all.push_back({dimension.name, fmt::format("s{}", all.size()), range, size, sizes_to_try(range),
                   far_sizes(dimension, size, integers)});
  }
  return all;
}

std::vector<Run> runs_of(const std::vector<SampledDimension>& dimensions) {
  Run example;
  Run base;
  for (const auto& dimension : dimensions) {
    example.push_back(dimension.example);
    base.push_back(dimension.sizes.front());
  }
  std::vector<Run> runs{example, base};
  const auto size = [&](std::size_t dimension, std::size_t index) {
    const auto& sizes = dimensions[dimension].sizes;
    return sizes[std::min(index, sizes.size() - 1)];
  };
  for (std::size_t a = 0; a < dimensions.size(); ++a) {
    auto run = base;
    for (const auto alone : dimensions[a].sizes) {
      run[a] = alone;
      runs.push_back(run);
    }
    for (std::size_t b = 0; b < a; ++b) {
      for (const auto& [index_a, index_b] : {std::pair{1, 1}, {1, 3}, {3, 1}, {3, 4}}) {
        run = base;
        run[a] = size(a, static_cast<std::size_t>(index_a));
        run[b] = size(b, static_cast<std::size_t>(index_b));
        runs.push_back(run);
        for (std::size_t c = 0; c < b && index_a == 1; ++c) {
          auto three = run;
          three[c] = size(c, 2);
          runs.push_back(three);
        }
      }
    }
  }
  return runs;
}

std::vector<Run> far_runs_of(const std::vector<SampledDimension>& dimensions,
                             const std::vector<Run>& runs) {
  auto second = runs.at(1);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    second[i] = dimensions[i].sizes.at(std::min<std::size_t>(1, dimensions[i].sizes.size() - 1));
  }
  std::vector<Run> far;
  auto largest = runs.at(1);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    for (const auto size : dimensions[i].far) {
      for (auto run : {runs.at(1), second}) {
        run[i] = size;
        far.push_back(run);
        if (dimensions.size() == 1) break;  // both runs are the same
      }
      largest[i] = std::max(largest[i], size);
    }
  }
  if (dimensions.size() > 1) far.push_back(largest);
  append(far, all_combinations(dimensions), /*with_ones=*/false);
  return far;
}

std::vector<Run> runs_with_ones(const std::vector<SampledDimension>& dimensions,
                                const std::vector<Run>& runs) {
  std::vector<Run> at_one;
  auto all = runs.at(1);
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i].range.min.value_or(1) > 1) continue;
    auto run = runs.at(1);
    run[i] = all[i] = 1;
    at_one.push_back(run);
  }
  if (at_one.size() > 1) at_one.push_back(all);
  append(at_one, all_combinations(dimensions), /*with_ones=*/true);
  return at_one;
}

}  // namespace attend::program
