#pragma once

#include "attend/nn/freezing.h"

#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

using Tensors = std::vector<torch::Tensor>;
using TensorFunction = std::function<torch::Tensor(const Tensors&)>;

/// Traces `function` to TorchScript at the sizes of `example` and returns the traced graph as a
/// function of other inputs. A size that `function` reads into an integer stays that of `example`,
/// so the result at other sizes tells whether there is one. What is not an input becomes a
/// constant, so a module must be without gradients, and without dropout.
///
///     freeze(*module);
///     auto traced = trace(run, {torch::randn({2, 3, 8})});
///     EXPECT_TRUE(close(traced({x}), run({x}), 1e-6));
TensorFunction trace(const TensorFunction& function, const Tensors& example);

}  // namespace attend
