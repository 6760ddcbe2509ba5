#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "pt2/program/exported_program.h"

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
  std::vector<int64_t> sizes;  // small sizes in the range
  /// The sizes of `trial_sizes` from 2 to 2^16. The constants are `TracedProgram::integers`.
  std::vector<int64_t> far;
};

/// Sizes of the dynamic dimensions in a run of the program.
using Run = std::vector<int64_t>;

/// Returns the dynamic dimensions, each name once. Omits dimensions with min == max. `integers`:
/// see `TracedProgram::integers`.
ATTEND_API std::vector<SampledDimension> sampled_dimensions(
    const std::vector<torch::Tensor>& example, const std::vector<DynamicDimension>& dynamic,
    const std::set<int64_t>& integers);

/// Returns the sizes of the dynamic dimensions in each run. Run 0 has the example's sizes. In
/// run 1, each dimension has the first of its `SampledDimension::sizes`. Each later run differs
/// from run 1 in at most three dimensions: all sizes of one dimension at a time, and a few sizes of
/// pairs and triples of dimensions. Together, the runs determine the coefficients of polynomials of
/// degree 3.
ATTEND_API std::vector<Run> runs_of(const std::vector<SampledDimension>& dimensions);

/// Returns runs in which one dimension has one of its sizes `SampledDimension::far`. The other
/// dimensions all have the first, or all have the second, of their `SampledDimension::sizes`. If
/// there are several dimensions, a further run has the largest far size of each dimension. If the
/// sizes in the ranges of all dimensions have at most 64 combinations, the last runs are the
/// combinations without a size of 1. `runs`: the result of `runs_of`.
ATTEND_API std::vector<Run> far_runs_of(const std::vector<SampledDimension>& dimensions,
                                        const std::vector<Run>& runs);

/// Returns runs in which one dimension at a time has size 1, then a run in which all have size 1. A
/// dimension has size 1 only if its range contains 1. Sizes other than 1 are those of `runs[1]`,
/// where `runs` is the result of `runs_of`. If the sizes in the ranges of all dimensions have at
/// most 64 combinations, the last runs are the combinations with a size of 1. Size 1 is special:
/// squeeze removes dimensions, slices are shorter, more tensors are contiguous, and strides are
/// arbitrary.
ATTEND_API std::vector<Run> runs_with_ones(const std::vector<SampledDimension>& dimensions,
                                           const std::vector<Run>& runs);

}  // namespace attend::program
