#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace attend {

/// Where C++ gives a bool for a Scalar, as in `mask.fill_(true)`, LibTorch's tracer writes a bool,
/// which no operator of TorchScript takes, and then fails. Puts something in its place that one
/// does and that gives the same: a number, or a tensor without dimensions.
void replace_bool_scalars(torch::jit::Graph& graph);

}  // namespace attend
