#include "attend/train/device.h"

#include "attend/input_error.h"

#include <ATen/Context.h>
#include <fmt/format.h>

namespace attend::train {

torch::Device find_device(const std::string& name) {
  const int64_t gpus = at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  if (name == "auto") return gpus > 0 ? torch::kCUDA : torch::kCPU;
  const bool known = name == "cpu" || name == "cuda" || name.starts_with("cuda:");
  try {
    if (!known) throw InputError("");
    const torch::Device device(name);
    if (device.is_cpu() || std::max<int64_t>(device.index(), 0) < gpus) return device;
  } catch (const std::exception&) {
    throw InputError(fmt::format("device: expected auto, cpu, cuda or cuda:N, found '{}'", name));
  }
  throw InputError(fmt::format("device: {} is not there: {} GPUs found", name, gpus));
}

}  // namespace attend::train
