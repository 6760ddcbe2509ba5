#pragma once

#include "attend/export/export_options.h"
#include "pt2/program/exported_program.h"

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attend::program {

/// A dynamic dimension with its symbol in the program and its sizes in the runs.
struct SampledDimension {
  std::string name;
  std::string symbol;
  Range range;
  int64_t example = 0;
  std::vector<int64_t> sizes;  // without the example's
};

/// Sizes of the dynamic dimensions in a run of the program.
using Run = std::vector<int64_t>;

/// Returns the dynamic dimensions, each name once, without those of a single size.
std::vector<SampledDimension> sampled_dimensions(const std::vector<torch::Tensor>& example,
                                                 const std::vector<DynamicDimension>& dynamic);

/// Returns the example's sizes, then each dimension alone at all of its sizes, then pairs and
/// triples at a few: enough to determine polynomials of degree 3.
std::vector<Run> runs_of(const std::vector<SampledDimension>& dimensions);

/// Returns runs with each dimension at 1 if its range contains it, then with all at 1. There
/// squeeze removes dimensions, slices are shorter and more tensors are contiguous. Strides of
/// size-1 dimensions are arbitrary. The other sizes are those of `runs`, the result of `runs_of`.
std::vector<Run> runs_with_ones(const std::vector<SampledDimension>& dimensions,
                                const std::vector<Run>& runs);

}  // namespace attend::program
