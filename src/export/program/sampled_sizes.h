#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "program/exported_program.h"

#include <torch/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace attend::program {

/// A dynamic dimension, its symbol in the program, and the sizes at which the program is run.
struct SampledDimension {
  std::string name;
  std::string symbol;
  Range range;
  int64_t example = 0;         // size in the example inputs
  std::vector<int64_t> sizes;  // sizes near the minimum of the range
  /// The sizes from 2 to 2^20 in all three lists that `trial_sizes` returns. Its argument
  /// `constants` is `TracedProgram::integers`. If there are more than 100 such sizes, some sizes of
  /// `TrialSizes::others` are omitted.
  std::vector<int64_t> far;
};

/// Sizes of the dynamic dimensions in a run of the program.
using Run = std::vector<int64_t>;

/// Returns the dynamic dimensions, each name once. Omits dimensions with min == max. `integers`:
/// see `TracedProgram::integers`.
ATTEND_API std::vector<SampledDimension> sampled_dimensions(
    const std::vector<torch::Tensor>& example, const std::vector<DynamicDimension>& dynamic,
    const std::set<int64_t>& integers);

/// Returns the sizes of the dynamic dimensions in each run. Run 0 has the example's sizes. In run
/// 1, each dimension has its first size from `SampledDimension::sizes`. Each later run differs from
/// run 1 in at most three dimensions. For each dimension and each of its sizes in
/// `SampledDimension::sizes`, there is a run in which the dimension has this size, and all other
/// dimensions have the same sizes as in run 1. For each pair and triple of dimensions, there are
/// runs with a few combinations of such sizes. Together, the runs determine the coefficients of
/// polynomials of degree 3.
ATTEND_API std::vector<Run> runs_of(const std::vector<SampledDimension>& dimensions);

/// Returns further runs. In each of the first runs, one dimension has a size from its list
/// `SampledDimension::far`. If there is only one dimension, there is one run for each such size. If
/// there are several dimensions, there are two runs for each such size: in one run, all other
/// dimensions have their first size from `SampledDimension::sizes`; in the other run, they have
/// their second size. With several dimensions, the next run is one in which each dimension has the
/// largest size from its list `far`. If the sizes in the ranges of all dimensions have at most 64
/// combinations, the last runs are all combinations in which no dimension has size 1. `runs`: the
/// result of `runs_of`.
ATTEND_API std::vector<Run> far_runs_of(const std::vector<SampledDimension>& dimensions,
                                        const std::vector<Run>& runs);

/// For each dimension whose range contains 1, returns a run in which this dimension has size 1. If
/// there are several such dimensions, the next run is one in which all of them have size 1. In
/// these runs, the other dimensions have the same sizes as in `runs[1]`. If the sizes in the ranges
/// of all dimensions have at most 64 combinations, the last runs are all combinations in which at
/// least one dimension has size 1. Size 1 is special: squeeze removes dimensions of size 1, more
/// tensors are contiguous, and the stride of a dimension of size 1 is arbitrary. `runs`: the result
/// of `runs_of`.
ATTEND_API std::vector<Run> runs_with_ones(const std::vector<SampledDimension>& dimensions,
                                           const std::vector<Run>& runs);

}  // namespace attend::program
