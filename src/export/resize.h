#pragma once

#include "attend/export/export_options.h"

#include <map>
#include <string>
#include <vector>

namespace attend {

/// Sizes of the dynamic dimensions by name.
using SizesByName = std::map<std::string, int64_t>;

/// Returns `dynamic` without the elements whose name occurs in an earlier element, so that each
/// name occurs once.
std::vector<DynamicDimension> distinct(const std::vector<DynamicDimension>& dynamic);

/// Returns the size of each dynamic dimension in the example inputs, by name.
SizesByName sizes_of(const std::vector<torch::Tensor>& example,
                     const std::vector<DynamicDimension>& dynamic);

/// Returns copies of tensors, for calls that may mutate their inputs.
std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& tensors);

/// Returns copies of the example inputs with other sizes. `sizes` maps names of dynamic dimensions
/// to the new sizes; the other dimensions have the example's sizes. The values at index i of a
/// dynamic dimension are the example's values at index (i + shift) modulo the example's size of
/// this dimension.
std::vector<torch::Tensor> resize(const std::vector<torch::Tensor>& example,
                                  const std::vector<DynamicDimension>& dynamic,
                                  const SizesByName& sizes, int64_t shift = 0);

}  // namespace attend
