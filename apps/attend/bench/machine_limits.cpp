#include "bench/machine_limits.h"

#include "attend/ops/linear.h"

#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace attend::app {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Makes a function that multiplies two matrices.
using MakeProduct =
    std::function<std::function<void()>(const torch::Tensor& a, const torch::Tensor& b)>;

std::vector<MakeProduct> ways_to_multiply(torch::Device device) {
  const auto plain = [](auto a, auto b) { return [=] { torch::mm(a, b); }; };
  if (device.is_cuda()) return {plain};
  const auto unpacked = [](auto a, auto b) { return [=] { apply_linear(a, b); }; };
  const auto packed = [](auto a, auto b) {
    prepare_weight(b, WeightFormat::packed);
    return [=] { apply_linear(a, b); };
  };
  return {plain, unpacked, packed};
}

/// Returns the speed of matrix products, in floating-point operations per second. Leaves out sizes
/// that would take longer than `max_seconds`: a CPU without instructions for bf16 needs half a
/// minute for the largest.
double product_speed(torch::Device device, torch::Dtype dtype, double max_seconds) {
  const auto sizes = device.is_cuda() ? std::vector<int64_t>{4096, 8192}
                                      : std::vector<int64_t>{256, 512, 1024, 2048};
  double fastest = 0.0;
  for (const auto& make_product : ways_to_multiply(device)) {
    double speed = 0.0;
    for (const auto n : sizes) {
      const auto operations = 2.0 * static_cast<double>(n * n * n);
      if (n > sizes.front() && operations > speed * max_seconds) break;
      const auto random = [&] { return torch::randn({n, n}, device).to(dtype); };
      const auto product = make_product(random(), random());
      speed = std::max(speed, operations / fastest_seconds(device, max_seconds, product));
    }
    fastest = std::max(fastest, speed);
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
