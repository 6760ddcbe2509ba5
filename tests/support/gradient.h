#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

/// Succeeds if the gradients of `function` with respect to `leaves` equal central finite
/// differences. The bound for a leaf follows the case: it is measured with differences of half and
/// twice the step. The leaves must be float64 and contiguous, and must require gradients. The
/// output of `function` is reduced to a scalar: its elements are added with random weights. These
/// weights are drawn only once, so they are the same in both computations.
///
///     EXPECT_TRUE(gradients_match([&] { return module(x); }, module->parameters()));
testing::AssertionResult gradients_match(const std::function<torch::Tensor()>& function,
                                         const std::vector<torch::Tensor>& leaves);

/// Returns the derivative of `function` at `x` in the direction `tangent`, computed with
/// forward-mode AD.
torch::Tensor forward_derivative(const std::function<torch::Tensor(const torch::Tensor&)>& function,
                                 const torch::Tensor& x, const torch::Tensor& tangent);

}  // namespace attend
