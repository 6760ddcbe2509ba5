#pragma once

#include "export/program/traced_program.h"

#include <torch/csrc/jit/api/module.h>

namespace attend::program {

/// The calls of a traced `forward` as a program, without what is known of its tensors. All
/// parameters and buffers are inputs of it, used or not, tensors that the trace holds itself are
/// constants. Throws std::runtime_error, naming the operator, for what a program cannot hold.
TracedProgram program_of(const torch::jit::Module& module);

}  // namespace attend::program
