#include "attend/train/device.h"

#include "attend/input_error.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace attend::train {

namespace {

/// Nothing if it is not the name of a device that models run on.
std::optional<torch::Device> device_of(const std::string& name) {
  if (name != "cpu" && name != "cuda" && !name.starts_with("cuda:")) return std::nullopt;
  try {
    return torch::Device(name);
  } catch (const c10::Error&) {  // as of cuda:x
    return std::nullopt;
  }
}

}  // namespace

torch::Device find_device(const std::string& name) {
  const int64_t gpus = at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  if (name == "auto") return gpus > 0 ? torch::kCUDA : torch::kCPU;
  const auto device = device_of(name);
  if (!device) {
    throw InputError(fmt::format("device: expected auto, cpu, cuda or cuda:N, found '{}'", name));
  }
  if (device->is_cpu() || std::max<int64_t>(device->index(), 0) < gpus) return *device;
  throw InputError(fmt::format("device: {} is not there: {} GPUs found", name, gpus));
}

}  // namespace attend::train
