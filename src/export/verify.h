#pragma once

#include "attend/export/export_options.h"
#include "export/export_guard.h"
#include "export/lifted_sizes.h"

#include <torch/nn/module.h>

#include <vector>

namespace attend {

/// Compares the exported program `exported` with `forward` of `module` on the example inputs and on
/// inputs of other sizes and values. Throws std::runtime_error if the outputs differ. The message
/// names the shapes of the inputs and the difference. If a dimension or value was specialized, the
/// message also names the operator and its call site. Also throws std::runtime_error if forward
/// mutates parameters or constants. Sizes near the integers in `trace` are verified too.
ExportReport verify(ExportGuard& guard, const torch::nn::Module& module, const Forward& exported,
                    const Forward& forward, const std::vector<torch::Tensor>& example_inputs,
                    const TraceSummary& trace, const ExportOptions& options);

}  // namespace attend
