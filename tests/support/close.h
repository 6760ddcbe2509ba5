#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

namespace attend {

/// Whether the shapes are equal and no element is further than `tolerance` from its counterpart;
/// otherwise tells the greatest difference and where it is. Compares in float64, whatever the
/// dtypes; equal infinities are close, NaN is close to nothing.
///
///     EXPECT_TRUE(close(actual, expected, 1e-6));
testing::AssertionResult close(const torch::Tensor& actual, const torch::Tensor& expected,
                               double tolerance);

/// The tolerance for numbers that a text prints with so many decimals: half a unit of the last
/// one, and the rounding of float32 sums of the order of 1.
constexpr double printed_to(int decimals) {
  double unit = 1.0;
  for (int i = 0; i < decimals; ++i) unit /= 10.0;
  return unit / 2 + 5e-7;
}

}  // namespace attend
