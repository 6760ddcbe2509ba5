#pragma once

#include "attend/api.h"
#include "attend/export/export_options.h"
#include "export/check_names.h"
#include "export/lifted_sizes.h"
#include "program/exported_program.h"

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

namespace attend::program {

/// A program with its parameters, buffers and constants by name (`Input::target`).
struct ATTEND_API TracedProgram {
  ExportedProgram program;
  std::map<std::string, torch::Tensor> weights;
  TraceSummary trace;

  /// Returns the weights that are neither parameters nor buffers.
  std::vector<torch::Tensor> constants() const;
};

/// Traces `function`, which calls `module`, and returns a program with tensor metadata. Throws
/// std::runtime_error if an operator cannot be represented or a dimension is specialized. The
/// message names the operator and, for a specialized dimension, the call site.
ATTEND_API TracedProgram trace_program(const torch::nn::Module& module, const Forward& function,
                                       const std::vector<torch::Tensor>& example_inputs,
                                       const ExportOptions& options,
                                       TargetFormat format = TargetFormat::pt2);

}  // namespace attend::program
