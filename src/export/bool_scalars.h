#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace attend {

/// Replaces each bool constant that is passed as a Scalar argument, such as `true` in
/// `mask.fill_(true)`, by an equivalent int or 0-dimensional tensor. LibTorch's tracer records
/// these arguments as bools, but TorchScript has no operator overloads for a bool Scalar.
void replace_bool_scalars(torch::jit::Graph& graph);

}  // namespace attend
