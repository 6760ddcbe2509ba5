#include "train/device.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

namespace attend::train {
namespace {

/// Returns the CPU or CUDA device named `name`; std::nullopt if the name is not valid.
std::optional<torch::Device> parse_device(const std::string& name) {
  if (name != "cpu" && name != "cuda" && !name.starts_with("cuda:")) return std::nullopt;
  try {
    return torch::Device(name);
  } catch (const c10::Error&) {  // for example cuda:x
    return std::nullopt;
  }
}

// Minimum time of a measurement in seconds. It is longer than a time slice of the scheduler, so
// that a measurement includes waiting for another process on the same core.
constexpr double kMinSeconds = 0.06;
// The search ends early if a measured time is more than kLongCall seconds and also more than
// kMuchSlower times the best time.
constexpr double kLongCall = 1.0;
constexpr double kMuchSlower = 1.5;
// A time that is less than this multiple of the best time counts as equal to the best time.
constexpr double kAboutAsFast = 1.1;

double seconds_of(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

torch::Device resolve_device(const std::string& name) {
  const c10::DeviceIndex gpus = torch::cuda::device_count();
  if (name == "auto") return gpus > 0 ? torch::kCUDA : torch::kCPU;
  const auto device = parse_device(name);
  if (!device) {
    throw InputError(fmt::format("device: expected auto, cpu, cuda or cuda:N, found '{}'", name));
  }
  if (device->is_cpu() || std::max<c10::DeviceIndex>(device->index(), 0) < gpus) return *device;
  throw InputError(fmt::format(
      "device: {} is not available; number of GPUs that LibTorch finds: {}", name, gpus));
}

void set_num_threads(int64_t threads) {
  if (threads > 0) torch::set_num_threads(static_cast<int>(threads));
}

NumThreadsGuard::NumThreadsGuard(int64_t threads) : before_(torch::get_num_threads()) {
  torch::set_num_threads(static_cast<int>(threads));
}

NumThreadsGuard::~NumThreadsGuard() {
  torch::set_num_threads(before_);
}

int64_t fastest_num_threads(const std::function<double(int64_t)>& seconds_with,
                            int64_t max_threads) {
  int64_t fastest = max_threads;
  double best = INFINITY;
  for (int64_t threads = max_threads;; threads = (threads + 1) / 2) {
    const double seconds = seconds_with(threads);
    if (seconds < kAboutAsFast * best) fastest = threads;
    if (threads == 1 || (seconds > kLongCall && seconds > kMuchSlower * best)) return fastest;
    best = std::min(best, seconds);
  }
}

double mean_seconds(const std::function<void()>& work, int64_t threads) {
  const NumThreadsGuard guard(threads);
  work();  // starts the threads, fills caches
  // The minimum of several times would not include the time in which a thread waits for a busy
  // core. The mean includes it.
  double sum = 0.0;
  int64_t count = 0;
  while (sum < kMinSeconds) {
    sum += seconds_of(work);
    ++count;
  }
  return sum / static_cast<double>(count);
}

}  // namespace attend::train
