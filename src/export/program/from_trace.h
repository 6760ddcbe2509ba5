#pragma once

#include "export/program/traced_program.h"

#include <torch/csrc/jit/api/module.h>

namespace attend::program {

/// Converts a traced `forward` to a program without tensor metadata. All parameters and buffers are
/// lifted as inputs, used or not; constant tensors of the trace are lifted as constants. Throws
/// std::runtime_error, naming the operator, if it cannot be represented.
TracedProgram program_from_trace(const torch::jit::Module& module);

}  // namespace attend::program
