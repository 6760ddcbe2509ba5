#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <vector>

namespace attend {

/// Succeeds if the gradients of `function` with respect to `leaves` equal central finite
/// differences, to 1e-7. Leaves are float64, contiguous and require gradients. The output of
/// `function` is reduced to a scalar with fixed random weights.
///
///     EXPECT_TRUE(gradients_match([&] { return module(x); }, module->parameters()));
testing::AssertionResult gradients_match(const std::function<torch::Tensor()>& function,
                                         const std::vector<torch::Tensor>& leaves);

}  // namespace attend
