#pragma once

#include "attend/export/export_options.h"
#include "export/program/program.h"
#include "export/program/unfitted_sizes.h"

#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

namespace attend::program {

/// A program, and the tensors that its inputs but the user's stand for, by their targets.
struct TracedProgram {
  Program program;
  std::map<std::string, torch::Tensor> weights;

  /// Those that are neither parameters nor buffers.
  std::vector<torch::Tensor> constants() const;
};

/// The calls of a function over a module as a program, with what is known of its tensors. Throws
/// std::runtime_error for what a program cannot hold and for a size that was frozen, naming the
/// operation and where it is called.
TracedProgram trace_program(const torch::nn::Module& module, const Forward& function,
                            const std::vector<torch::Tensor>& example_inputs,
                            const ExportOptions& options,
                            UnfittedSizes unfitted_sizes = UnfittedSizes::refused);

}  // namespace attend::program
