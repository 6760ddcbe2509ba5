#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

namespace attend {

inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// Succeeds if the shapes are equal and all elements differ by at most `tolerance`. If an element
/// differs more, the message names the largest difference and its position. Compares in float64 for
/// all dtypes. Equal infinities are close; NaN is not close to anything.
///
///     EXPECT_TRUE(close(actual, expected, 1e-6));
testing::AssertionResult close(const torch::Tensor& actual, const torch::Tensor& expected,
                               double tolerance);

/// Returns the tolerance for expected values printed with `decimals` decimals: half a unit of the
/// last decimal, plus an allowance for the float32 rounding errors of sums around 1.
constexpr double printed_to(int decimals) {
  double unit = 1.0;
  for (int i = 0; i < decimals; ++i) unit /= 10.0;
  return unit / 2 + 5e-7;
}

}  // namespace attend
