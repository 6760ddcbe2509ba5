#pragma once

#include "attend/nn/freezing.h"

#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

using Tensors = std::vector<torch::Tensor>;
using TensorFunction = std::function<torch::Tensor(const Tensors&)>;

/// Traces `function` to TorchScript with the inputs `example` and returns the traced graph as a
/// function. A size that `function` reads as an integer is specialized to the size in `example`, so
/// the results at other sizes can be wrong. Tensors that are not inputs become constants. The
/// parameters of modules must not require gradients (see `attend::freeze`), and modules must not
/// apply dropout.
///
///     freeze(*module);
///     auto traced = trace(run, {torch::randn({2, 3, 8})});
///     EXPECT_TRUE(close(traced({x}), run({x}), 1e-6));
TensorFunction trace(const TensorFunction& function, const Tensors& example);

}  // namespace attend
