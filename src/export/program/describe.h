#pragma once

#include "attend/export/export_options.h"
#include "export/program/from_trace.h"

#include <vector>

namespace attend::program {

/// Adds to a traced program what is known of its tensors: their dtypes, and their sizes and strides
/// as expressions of the dynamic ones, found by running it at several of these. Throws
/// std::runtime_error, naming the operator, if a size depends on them in a way that is none, unless
/// those are left open.
void describe_tensors(TracedProgram& traced, const std::vector<torch::Tensor>& example_inputs,
                      const std::vector<DynamicDimension>& dynamic, UnfittedSizes unfitted_sizes);

}  // namespace attend::program
