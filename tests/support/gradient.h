#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

/// Whether the gradients that autograd gives for `function` in `leaves` are those of central finite
/// differences, to 1e-7. The leaves are float64, require a gradient, and are read by `function`;
/// what it returns is weighted by fixed random numbers and summed.
///
///     EXPECT_TRUE(gradients_match([&] { return module(x); }, module->parameters()));
testing::AssertionResult gradients_match(const std::function<torch::Tensor()>& function,
                                         const std::vector<torch::Tensor>& leaves);

}  // namespace attend
