#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace attend {

/// Replaces bool constants passed as Scalar arguments, such as `mask.fill_(true)`, by an equivalent
/// int or 0-dimensional tensor. LibTorch's tracer records a bool there, for which TorchScript has
/// no operator overload.
void replace_bool_scalars(torch::jit::Graph& graph);

}  // namespace attend
