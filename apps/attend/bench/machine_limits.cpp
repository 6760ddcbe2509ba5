#include "bench/machine_limits.h"

#include "attend/ops/linear.h"

#include <torch/cuda.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <vector>

namespace attend::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the speed of matrix products, in floating-point operations per second.
double product_speed(torch::Device device, torch::Dtype dtype, double max_seconds) {
  double fastest = 0.0;
  const auto sizes =
      device.is_cuda() ? std::array<int64_t, 2>{4096, 8192} : std::array<int64_t, 2>{1024, 2048};
  for (const auto n : sizes) {
    const auto random = [&] { return torch::randn({n, n}, device).to(dtype); };
    const auto a = random();
    const auto b = random();
    std::vector<std::function<void()>> products{[&] { torch::mm(a, b); }};
    if (device.is_cpu()) {
      const auto packed = random();
      prepare_weight(packed, WeightFormat::packed);
      products.emplace_back([&] { apply_linear(a, b); });
      products.emplace_back([&a, packed] { apply_linear(a, packed); });
    }
    for (const auto& product : products) {
      const auto operations = 2.0 * static_cast<double>(n * n * n);
      fastest = std::max(fastest, operations / fastest_seconds(device, max_seconds, product));
    }
  }
  return fastest;
}

}  // namespace

double fastest_seconds(torch::Device device, double max_seconds,
                       const std::function<void()>& work) {
  const auto begin = Clock::now();
  const auto run = [&] {
    const auto start = Clock::now();
    work();
    if (device.is_cuda()) torch::cuda::synchronize();  // operators on a GPU return before they end
    return seconds_since(start);
  };
  run();
  double fastest = run();
  for (int i = 1; i < 20 && seconds_since(begin) < max_seconds; ++i)
    fastest = std::min(fastest, run());
  return fastest;
}

MachineLimits measure_limits(torch::Device device, double max_seconds) {
  const torch::NoGradGuard no_grad;
  // 256 MiB or, on a GPU, whose cache is larger, 4 GiB
  const auto memory = torch::ones({int64_t{1} << (device.is_cuda() ? 30 : 26)}, device);
  const auto read = [&] { memory.sum(); };
  return {.fp32_flops = product_speed(device, torch::kFloat, max_seconds),
          .bf16_flops = product_speed(device, torch::kBFloat16, max_seconds),
          .read_bytes =
              static_cast<double>(memory.nbytes()) / fastest_seconds(device, max_seconds, read)};
}

}  // namespace attend::app
