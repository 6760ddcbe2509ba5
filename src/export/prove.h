#pragma once

#include "attend/export/export_options.h"
#include "export/export_scope.h"

#include <torch/nn/module.h>

namespace attend {

/// Compares what was written with the function that it was written from, on the example and on
/// inputs of other sizes and values. Throws std::runtime_error if they differ, saying at which
/// shape and by how much and, if a size was frozen, by which operation and where that is called.
/// `module` is the one that `function` is of; `scope` says, too, if it changes what it may not.
ExportReport prove(ExportGuard& scope, const torch::nn::Module& module, const Forward& file,
                   const Forward& function, const std::vector<torch::Tensor>& example_inputs,
                   const ExportOptions& options);

}  // namespace attend
