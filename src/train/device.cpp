#include "attend/train/device.h"

#include "attend/input_error.h"

#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
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

}  // namespace attend::train
