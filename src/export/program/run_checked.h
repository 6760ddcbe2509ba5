#pragma once

#include "attend/api.h"
#include "pt2/program/exported_program.h"
#include "pt2/program/runner.h"

#include <torch/types.h>

#include <vector>

namespace attend::program {

/// Runs a program and returns its outputs. Throws std::runtime_error if the size of a tensor
/// differs from its expression in the metadata. Does not check sizes without an expression.
ATTEND_API std::vector<torch::Tensor> run_checked(const ExportedProgram& program,
                                                  const Runner& runner,
                                                  const std::vector<torch::Tensor>& inputs);

}  // namespace attend::program
