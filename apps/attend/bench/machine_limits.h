#pragma once

#include <torch/types.h>

#include <functional>

namespace attend::app {

/// Speeds of the machine that limit the speed of a model.
struct MachineLimits {
  double fp32_flops = 0.0;  ///< matrix products in fp32, in floating-point operations per second
  double bf16_flops = 0.0;  ///< matrix products in bf16, in floating-point operations per second
  double read_bytes = 0.0;  ///< reading memory, in bytes per second
};

/// Returns the seconds of the fastest of at most 20 runs of `work`, which computes on `device`. No
/// run starts after `max_seconds`, except the first two: the warm-up and a measured run.
double fastest_seconds(torch::Device device, double max_seconds, const std::function<void()>& work);

/// Measures the limits of the machine. The speed of products is that of the fastest way to compute
/// them: for the fastest of some sizes and, on a CPU, with MKL or oneDNN, with plain or packed
/// weights. `max_seconds` is the time of each of these measurements, as in `fastest_seconds`. Sizes
/// that take longer are left out.
MachineLimits measure_limits(torch::Device device, double max_seconds = 1.0);

}  // namespace attend::app
