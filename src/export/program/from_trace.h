#pragma once

#include "export/program/traced_program.h"

#include <torch/csrc/jit/api/module.h>

namespace attend::program {

/// Converts a traced `forward` to a program without tensor metadata. All parameters and buffers,
/// used or not, and the constant tensors of the trace become inputs of the program. Throws
/// std::runtime_error if an operator cannot be represented. The message names the operator.
/// `stack_traces`: see `CallSites::stack_traces`.
TracedProgram program_from_trace(const torch::jit::Module& module, StackTraces stack_traces);

}  // namespace attend::program
