#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

/// Succeeds if the gradients of `function` with respect to `leaves` differ from central finite
/// differences by at most 1e-7. The leaves must be float64 and contiguous, and must require
/// gradients. The output of `function` is reduced to a scalar: its elements are added with random
/// weights. These weights are drawn only once, so they are the same in both computations.
///
///     EXPECT_TRUE(gradients_match([&] { return module(x); }, module->parameters()));
testing::AssertionResult gradients_match(const std::function<torch::Tensor()>& function,
                                         const std::vector<torch::Tensor>& leaves);

}  // namespace attend
